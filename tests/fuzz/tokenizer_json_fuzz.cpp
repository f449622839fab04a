#include <cstdlib>
#include <nlohmann/json.hpp>

#include "shared/model/convert/hf_tokenizer_json.h"
#include "shared/model/tokenizer.h"
#include "tests/model/parts_gguf.h"

using namespace edgedraft;

// Any tokenizer.json gives a tokenizer or an error; a tokenizer that loads encodes any text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = nlohmann::json::parse(data, data + size, nullptr, false);
  if (!file.is_object()) return 0;
  const auto parts = read_tokenizer_json(file, 1 << 12);
  if (!parts || parts->entries.empty()) return 0;
  const Bytes bytes = test::gguf_of(*parts).bytes();
  const auto tokenizer = Tokenizer::read(GgufFile::parse(bytes).value());
  if (!tokenizer) return 0;
  for (const std::uint32_t id : tokenizer->encode("a <s>the\xFF\xC3\xA9 12", Special::parse)) {
    if (id >= tokenizer->vocabulary_count()) std::abort();
  }
  return 0;
}
