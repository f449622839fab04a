#include "shared/model/tokenizer/vocabulary.h"

#include <algorithm>
#include <limits>

#include "shared/base/bytes.h"
#include "shared/model/tensor_shapes.h"
#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

// Spellings that end an answer in any file: many files name only one end.
//
// Source    llama.cpp, without </s>
constexpr std::string_view kEndTexts[] = {"<|eot_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<|eom_id|>",
                                          "<|endoftext|>",
                                          "<|end_of_text|>",
                                          "<end_of_turn>",
                                          "<EOT>",
                                          "_<EOT>",
                                          "<end_of_utterance>",
                                          "<｜end▁of▁sentence｜>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<|flush|>",
                                          "<|calls|>",
                                          "<eos>",
                                          "<turn|>",
                                          "<|tool_response>",
                                          "[EOT]",
                                          "[EOS]",
                                          "[e~[",
                                          "<|fim_pad|>",
                                          "<fim-pad>",
                                          "<fim_pad>",
                                          "<PAD>",
                                          "[PAD]",
                                          "<|fim_repo|>",
                                          "<|repo_name|>",
                                          "<fim-repo>",
                                          "<REPO>",
                                          "<reponame>",
                                          "<|file_sep|>"};

constexpr std::string_view kMessageMarks[] = {"<|start|>", "<|channel|>", "<|constrain|>",
                                              "<|message|>", "<|end|>"};

// Spelled <|so|> or, as in Gemma 4, <|so> or <so|>.
bool looks_like_a_marker(std::string_view text) {
  return (text.starts_with("<|") && text.ends_with('>')) ||
         (text.starts_with('<') && text.ends_with("|>")) ||
         (text.starts_with("<｜") && text.ends_with("｜>"));
}

bool looks_like_a_tag(std::string_view text) {
  return text.size() > 2 && text.starts_with('<') && text.ends_with('>');
}

Result<std::optional<std::uint32_t>> read_id(const GgufFile& file, std::string_view key,
                                             std::size_t count) {
  if (file.find_value(key) == nullptr) return std::optional<std::uint32_t>{};
  const auto id = file.get_u32(key);
  if (!id) return id.error();
  // Some tools write -1 for none.
  if (*id == std::numeric_limits<std::uint32_t>::max()) return std::optional<std::uint32_t>{};
  if (*id >= count) return bad_file(std::string(key) + " is outside the vocabulary");
  return std::optional<std::uint32_t>{*id};
}

Result<void> read_entries(const GgufFile& file, Vocabulary& vocabulary) {
  const auto texts = file.get_strings("tokenizer.ggml.tokens");
  if (!texts) return texts.error();
  const auto types = file.get_i32s("tokenizer.ggml.token_type");
  if (!types) return types.error();
  if (texts->empty() || texts->size() > kVocabularyCountMax) {
    return bad_file("the tokenizer has " + std::to_string(texts->size()) + " entries");
  }
  if (types->size() != texts->size()) {
    return bad_file("the tokenizer's texts and types differ in number");
  }
  for (std::size_t i = 0; i < texts->size(); ++i) {
    const std::string_view text = (*texts)[i];
    const std::int32_t type = (*types)[i];
    const bool sound = !text.empty() && text.find('\0') == text.npos && is_valid_utf8(text) &&
                       type >= 1 && type <= 6;
    if (!sound) return bad_file("entry " + std::to_string(i) + " of the tokenizer is damaged");
    if (text.size() > kEntryBytesMax) {
      return bad_file("entry " + std::to_string(i) + " of the tokenizer has " +
                      std::to_string(text.size()) + " bytes, more than any token");
    }
    vocabulary.texts.emplace_back(text);
    vocabulary.types.push_back(TokenType{static_cast<std::uint8_t>(type)});
  }
  return {};
}

Result<void> read_end_ids(const GgufFile& file, Vocabulary& vocabulary) {
  const GgufValue* value = file.find_value(kEndIdsKey);
  if (value == nullptr) return {};
  if (value->type == GgufType::array && (value->count == 0 || value->count > kEndIdsMax)) {
    return bad_file(std::string(kEndIdsKey) + " has " + std::to_string(value->count) + " entries");
  }
  const auto ids = file.get_i32s(kEndIdsKey);
  if (!ids) return ids.error();
  for (const std::int32_t id : *ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= vocabulary.texts.size()) {
      return bad_file(std::string(kEndIdsKey) + " lists the token " + std::to_string(id) +
                      ", outside the vocabulary of " + std::to_string(vocabulary.texts.size()) +
                      " tokens");
    }
    vocabulary.ends.push_back(static_cast<std::uint32_t>(id));
  }
  return {};
}

Result<void> read_ends(const GgufFile& file, Vocabulary& vocabulary) {
  // A coder model's file separators end an answer as well.
  for (const std::string_view key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
        "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
        "tokenizer.ggml.fim_sep_token_id"}) {
    const auto id = read_id(file, key, vocabulary.texts.size());
    if (!id) return id.error();
    if (*id) vocabulary.ends.push_back(**id);
  }
  if (auto read = read_end_ids(file, vocabulary); !read) return read;
  std::size_t spelled = 0;
  for (std::size_t i = 0; i < vocabulary.texts.size(); ++i) {
    const std::string& text = vocabulary.texts[i];
    const TokenType type = vocabulary.types[i];
    const bool may_end = type == TokenType::control || type == TokenType::user_defined ||
                         (type == TokenType::normal && looks_like_a_marker(text));
    if (may_end && std::ranges::find(kEndTexts, text) != std::end(kEndTexts)) {
      if (++spelled > kEndIdsMax) {
        return bad_file("more than " + std::to_string(kEndIdsMax) +
                        " entries of the tokenizer are spelled like the end of an answer");
      }
      vocabulary.ends.push_back(static_cast<std::uint32_t>(i));
    }
  }
  std::ranges::sort(vocabulary.ends);
  return {};
}

// An answer of gpt-oss or Solar has several messages, each with a header and <|end|>. It goes on
// after <|end|>, and the marks between messages are part of its text.
void keep_messages(Vocabulary& vocabulary) {
  const auto ends_with = [&](std::string_view text) {
    return std::ranges::any_of(vocabulary.ends,
                               [&](std::uint32_t id) { return vocabulary.texts[id] == text; });
  };
  const bool has_call = ends_with("<|call|>") || ends_with("<|calls|>");
  if (!has_call || !(ends_with("<|return|>") || ends_with("<|flush|>"))) return;
  std::erase_if(vocabulary.ends,
                [&](std::uint32_t id) { return vocabulary.texts[id] == "<|end|>"; });
  for (std::size_t id = 0; id < vocabulary.texts.size(); ++id) {
    const bool is_mark =
        std::ranges::find(kMessageMarks, vocabulary.texts[id]) != std::end(kMessageMarks);
    if (is_mark && vocabulary.types[id] == TokenType::control) {
      vocabulary.types[id] = TokenType::user_defined;
    }
  }
}

}  // namespace

bool Vocabulary::is_end(std::uint32_t id) const {
  return std::ranges::binary_search(ends, id);
}

bool Vocabulary::is_control(std::uint32_t id) const {
  const TokenType type = types[id];
  if (type == TokenType::control || type == TokenType::unknown) return true;
  const bool begins_or_ends = id == bos || is_end(id);
  if (type == TokenType::user_defined) return looks_like_a_marker(texts[id]) || begins_or_ends;
  // Some models end with, e.g., a line end, and every text must be able to contain that.
  return type == TokenType::normal && begins_or_ends && looks_like_a_tag(texts[id]);
}

Result<void> keep_one_unknown(Vocabulary& vocabulary) {
  std::vector<TokenType>& types = vocabulary.types;
  if (std::ranges::count(types, TokenType::unknown) <= 1) return {};
  const auto first = std::ranges::find(types, TokenType::unknown) - types.begin();
  const std::uint32_t kept = vocabulary.unknown.value_or(static_cast<std::uint32_t>(first));
  for (std::uint32_t id = 0; id < types.size(); ++id) {
    if (types[id] != TokenType::unknown || id == kept) continue;
    if (id == vocabulary.bos || vocabulary.is_end(id)) {
      return bad_file("entry " + std::to_string(id) +
                      " of the tokenizer begins or ends a text but has the type unknown");
    }
    types[id] = TokenType::unused;
  }
  return {};
}

Result<Vocabulary> read_vocabulary(const GgufFile& file) {
  Vocabulary vocabulary;
  if (auto read = read_entries(file, vocabulary); !read) return read.error();
  const std::size_t count = vocabulary.texts.size();
  const auto bos = read_id(file, "tokenizer.ggml.bos_token_id", count);
  if (!bos) return bos.error();
  const auto eos = read_id(file, "tokenizer.ggml.eos_token_id", count);
  if (!eos) return eos.error();
  const auto unknown = read_id(file, "tokenizer.ggml.unknown_token_id", count);
  if (!unknown) return unknown.error();
  vocabulary.bos = *bos;
  vocabulary.eos = *eos;
  vocabulary.unknown = *unknown;
  if (auto read = read_ends(file, vocabulary); !read) return read.error();
  keep_messages(vocabulary);
  return vocabulary;
}

std::optional<char> byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const auto byte = from_hex(text.substr(3, 2));
  if (!byte) return std::nullopt;
  return static_cast<char>((*byte)[0]);
}

}  // namespace edgedraft
