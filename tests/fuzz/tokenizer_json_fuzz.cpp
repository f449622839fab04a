#include <cstdlib>
#include <nlohmann/json.hpp>

#include "shared/model/convert/hf_tokenizer_json.h"
#include "shared/model/tokenizer.h"
#include "tests/model/raw_gguf.h"

namespace {

using namespace edgedraft;

Bytes gguf_of(const TokenizerParts& parts) {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (const TokenizerParts::Entry& entry : parts.entries) {
    texts.push_back(entry.text);
    scores.push_back(entry.score);
    types.push_back(static_cast<std::int32_t>(entry.type));
  }
  test::RawGguf raw;
  raw.add_string("tokenizer.ggml.model", parts.model);
  raw.add_string("tokenizer.ggml.pre", parts.pre);
  raw.add_strings("tokenizer.ggml.tokens", texts);
  raw.add_strings("tokenizer.ggml.merges", parts.merges);
  raw.add_numbers("tokenizer.ggml.scores", 6, scores);
  raw.add_numbers("tokenizer.ggml.token_type", 5, types);
  return raw.bytes();
}

}  // namespace

// Any tokenizer.json gives an error or a tokenizer; one that then loads encodes any text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = nlohmann::json::parse(data, data + size, nullptr, false);
  if (!file.is_object()) return 0;
  const auto parts = read_tokenizer_json(file, 1 << 12);
  if (!parts || parts->entries.empty()) return 0;
  const Bytes bytes = gguf_of(*parts);
  const auto tokenizer = Tokenizer::read(GgufFile::parse(bytes).value());
  if (!tokenizer) return 0;
  for (const std::uint32_t id : tokenizer->encode("a <s>the\xFF\xC3\xA9 12", Special::parse)) {
    if (id >= tokenizer->vocabulary_count()) std::abort();
  }
  return 0;
}
