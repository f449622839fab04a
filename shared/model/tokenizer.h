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

// Whether the texts of control tokens ("<s>") in a text mean the tokens: plain for everything that
// a user typed. Symbols that a user may write ("<code>", user-defined) mean their tokens in both.
enum class Special : std::uint8_t { parse, plain };

// What a vocabulary entry is, with GGUF's numbers.
enum class TokenType : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

// Text to token ids and back, from a GGUF file's metadata. tokenizer.ggml.model says which kind:
// "gpt2" is byte-level BPE, "llama" SentencePiece BPE, "t5" SentencePiece unigram.
//
// Source    the reference implementations, token for token: Hugging Face's tokenizers (for Qwen2
//           with its NFC normalisation, which llama.cpp leaves out) and SentencePiece
// Threads   const methods may run concurrently
class Tokenizer {
 public:
  // Keeps nothing of `file`.
  // Errors    bad_file     no tokenizer, or one that contradicts itself
  //           unsupported  another kind, named
  static Result<Tokenizer> read(const GgufFile& file);

  // The ids of `text`, without the beginning-of-text token. Any bytes will do: byte-level BPE keeps
  // what is no UTF-8, SentencePiece reads it as U+FFFD.
  // Cost      close to linear in the text
  std::vector<std::uint32_t> encode(std::string_view text, Special special) const;
  // The same for a rendered chat: only the texts of control tokens that hold no foreign byte mean
  // the tokens.
  std::vector<std::uint32_t> encode(const MarkedText& text) const;

  // Whether the model wants bos_id() before every text.
  bool add_bos() const;
  // Puts it before the ids of a whole text where the model wants it and they do not begin with it,
  // as those of a chat do whose template writes it. No ids stay none.
  void begin_text(std::vector<std::uint32_t>& ids) const;
  std::optional<std::uint32_t> bos_id() const;
  std::optional<std::uint32_t> eos_id() const;
  // Whether the model ends its answer with `id`.
  bool is_end(std::uint32_t id) const;

  std::uint32_t vocabulary_count() const;
  // The entry as the vocabulary spells it, "▁the" or "<0x0A>". Requires id < vocabulary_count().
  std::string_view token_text(std::uint32_t id) const;
  TokenType token_type(std::uint32_t id) const;
  // The bytes that the token adds to a text: none for control tokens, maybe part of a character.
  std::string token_bytes(std::uint32_t id) const;
  // Whether encoding may put a space before the text, so that decoding takes one away. It does so
  // also where the text began with that space and the rule added none, as Hugging Face does.
  bool adds_space_prefix() const;

 private:
  struct State;
  using Allowed = std::function<bool(std::size_t begin, std::size_t end)>;
  std::vector<std::uint32_t> encode(std::string_view text, const Allowed& control_allowed) const;
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

// What becomes of the space that encoding put before a text.
enum class LeadingSpace : std::uint8_t {
  strip,  // the tokens begin a text
  keep,   // the tokens continue one
};

// Turns tokens into text one at a time, never giving away half a character. Bytes that are no UTF-8
// become U+FFFD.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, LeadingSpace leading_space);

  // The text that is now certain. Requires id < vocabulary_count().
  std::string push(std::uint32_t id);
  // What is left; the detokenizer is then as new.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  LeadingSpace leading_space_;
  bool at_start_ = true;
  std::string pending_;
};

// All of it at once.
std::string decode(const Tokenizer& tokenizer, std::span<const std::uint32_t> ids,
                   LeadingSpace leading_space);

}  // namespace edgedraft
