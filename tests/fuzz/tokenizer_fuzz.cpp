#include <cstdlib>

#include "shared/model/tokenizer.h"
#include "shared/model/utf8.h"
#include "tests/model/tiny_byte_bpe.h"
#include "tests/model/tiny_tokenizer.h"

namespace {

using namespace edgedraft;

Tokenizer make_sentencepiece() {
  test::RawGguf raw;
  test::TinyVocabulary().add_to(raw);
  const Bytes bytes = raw.bytes();
  return std::move(Tokenizer::read(GgufFile::parse(bytes).value()).value());
}

Tokenizer make_byte_bpe(const char* pre) {
  test::RawGguf raw;
  test::TinyByteBpe().add_to(raw, pre);
  const Bytes bytes = raw.bytes();
  return std::move(Tokenizer::read(GgufFile::parse(bytes).value()).value());
}

std::vector<std::uint32_t> encode(const Tokenizer& tokenizer, std::string_view text,
                                  Special special) {
  auto ids = tokenizer.encode(text, special);
  for (const std::uint32_t id : ids) {
    if (id >= tokenizer.vocabulary_count()) std::abort();
    if (special == Special::plain && tokenizer.token_type(id) == TokenType::control) std::abort();
  }
  return ids;
}

// True if SentencePiece returns the text unchanged: valid, and without its space character.
bool is_plain(std::string_view text) {
  return text.find("\xE2\x96\x81") == text.npos && is_valid_utf8(text);
}

}  // namespace

// Any text encodes to ids of the vocabulary, without control tokens unless requested, and decodes
// to itself.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizer sentencepiece = make_sentencepiece();
  static const Tokenizer byte_bpe[] = {make_byte_bpe("gpt-2"), make_byte_bpe("llama-bpe"),
                                       make_byte_bpe("starcoder"), make_byte_bpe("default")};
  static const Tokenizer qwen2 = make_byte_bpe("qwen2");  // normalises
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  encode(sentencepiece, text, Special::parse);
  const auto pieces = encode(sentencepiece, text, Special::plain);
  if (is_plain(text) && decode(sentencepiece, pieces, LeadingSpace::strip) != text) std::abort();
  for (const Tokenizer& tokenizer : byte_bpe) {
    encode(tokenizer, text, Special::parse);
    std::string back;
    for (const std::uint32_t id : encode(tokenizer, text, Special::plain)) {
      back += tokenizer.token_bytes(id);
    }
    if (back != text) std::abort();
  }
  encode(qwen2, text, Special::parse);
  return 0;
}
