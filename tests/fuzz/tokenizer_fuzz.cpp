#include <cstdlib>

#include "shared/model/tokenizer.h"
#include "shared/model/utf8.h"
#include "tests/model/tiny_tokenizer.h"

namespace {

using namespace edgedraft;

Tokenizer make_tokenizer() {
  test::RawGguf raw;
  test::TinyVocabulary().add_to(raw);
  const Bytes bytes = raw.bytes();
  auto tokenizer = Tokenizer::read(GgufFile::parse(bytes).value());
  return std::move(tokenizer.value());
}

// Text that must come back unchanged: valid, and without the characters that stand for others.
bool is_plain(std::string_view text) {
  if (text.find("\xE2\x96\x81") != text.npos || text.find("<|end|>") != text.npos) return false;
  return is_valid_utf8(text);
}

}  // namespace

// Any text encodes to ids of the vocabulary, and plain text comes back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizer tokenizer = make_tokenizer();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Special special : {Special::parse, Special::plain}) {
    const auto ids = tokenizer.encode(text, special);
    for (const std::uint32_t id : ids) {
      if (id >= tokenizer.vocabulary_count()) std::abort();
    }
    const std::string back = decode(tokenizer, ids, LeadingSpace::strip);
    if (special == Special::plain && is_plain(text) && back != text) std::abort();
  }
  return 0;
}
