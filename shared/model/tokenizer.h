#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/gguf.h"
#include "shared/model/marked_text.h"

namespace edgedraft {

// Whether texts of control tokens ("<s>") are encoded as the tokens: plain for everything typed by
// a user. User-defined symbols ("<code>") become tokens in both.
enum class Special : std::uint8_t { parse, plain };

// Type of a vocabulary entry, with GGUF's numbers.
enum class TokenType : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

// Converts text to token ids and back, from a GGUF file's metadata. The key tokenizer.ggml.model
// names the kind: "gpt2" is byte-level BPE, "gemma4" BPE with SentencePiece's spaces, "llama"
// SentencePiece BPE, "t5" SentencePiece unigram.
//
// Source    the reference implementations, token for token: Hugging Face's tokenizers (with NFC
//           normalisation for Qwen2, which llama.cpp omits) and SentencePiece
// Threads   const methods may run concurrently
class Tokenizer {
 public:
  // Does not refer to `file` afterwards.
  // Errors    bad_file     no tokenizer, or one that contradicts itself
  //           unsupported  another kind, which it names
  static Result<Tokenizer> read(const GgufFile& file);

  // Ids of `text`, without the beginning-of-text token. Accepts any bytes: byte-level BPE keeps
  // invalid UTF-8, SentencePiece reads it as U+FFFD.
  // Cost      close to linear in the text
  std::vector<std::uint32_t> encode(std::string_view text, Special special) const;
  // As above, for a rendered chat: only texts of control tokens without a foreign byte become the
  // tokens.
  std::vector<std::uint32_t> encode(const MarkedText& text) const;

  // True if the model requires bos_id() before every text.
  bool add_bos() const;
  // Puts bos_id() before a whole text's ids if the model requires it. Ids that start with it, as a
  // chat template's may, stay unchanged. An empty list stays empty.
  void begin_text(std::vector<std::uint32_t>& ids) const;
  std::optional<std::uint32_t> bos_id() const;
  std::optional<std::uint32_t> eos_id() const;
  // True if the model ends its answer with `id`.
  bool is_end(std::uint32_t id) const;

  std::uint32_t vocabulary_count() const;
  // The entry in the vocabulary's spelling, "▁the" or "<0x0A>". Requires id < vocabulary_count().
  std::string_view token_text(std::uint32_t id) const;
  TokenType token_type(std::uint32_t id) const;
  // Bytes that the token adds to a text: none for control tokens, perhaps part of a character.
  std::string token_bytes(std::uint32_t id) const;
  // True if encoding may put a space before the text, which decoding then removes. It also removes
  // a space that the text itself began with, as Hugging Face does.
  bool adds_space_prefix() const;

 private:
  struct State;
  using Allowed = std::function<bool(std::size_t begin, std::size_t end)>;
  std::vector<std::uint32_t> encode(std::string_view text, const Allowed& control_allowed) const;
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

// Treatment of the space that encoding put before a text.
enum class LeadingSpace : std::uint8_t {
  strip,  // the tokens start a text
  keep,   // the tokens continue one
};

// Turns tokens into text one at a time without splitting characters. Invalid UTF-8 becomes U+FFFD.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, LeadingSpace leading_space);

  // Returns the text that is now complete. Requires id < vocabulary_count().
  std::string push(std::uint32_t id);
  // Returns the rest and resets.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  LeadingSpace leading_space_;
  bool at_start_ = true;
  std::string pending_;
};

// Decodes all ids at once.
std::string decode(const Tokenizer& tokenizer, std::span<const std::uint32_t> ids,
                   LeadingSpace leading_space);

}  // namespace edgedraft
