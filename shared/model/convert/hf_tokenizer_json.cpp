#include "shared/model/convert/hf_tokenizer_json.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "shared/model/convert/tokenizer_json_steps.h"
#include "shared/model/json_file.h"
#include "shared/model/tokenizer/byte_letters.h"
#include "shared/model/tokenizer/pre_tokenizer_rules.h"
#include "shared/model/tokenizer/space_rule.h"
#include "shared/model/tokenizer/vocabulary.h"
#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

using nlohmann::json;
using Index = std::unordered_map<std::string_view, std::uint32_t>;
using Merge = std::pair<std::string, std::string>;

// {"the": 12, ...}
Result<void> read_vocabulary_map(const json& vocabulary, std::size_t count, TokenizerParts& parts) {
  std::vector<bool> taken;
  for (const auto& [text, id] : vocabulary.items()) {
    if (text.empty() || !id.is_number_unsigned() || id.get<std::uint64_t>() >= count) {
      return bad_tokenizer("the entry \"" + text.substr(0, 80) + "\" has no id below the model's " +
                           std::to_string(count));
    }
    const auto at = id.get<std::size_t>();
    parts.pad_to(at + 1);
    taken.resize(parts.entries.size());
    if (taken[at]) return bad_tokenizer("two entries have the id " + std::to_string(at));
    taken[at] = true;
    parts.entries[at] = {text, 0.0f, TokenType::normal};
  }
  return {};
}

// [["the", -3.5], ...]
Result<void> read_vocabulary_list(const json& vocabulary, std::size_t count,
                                  TokenizerParts& parts) {
  if (vocabulary.size() > count) return bad_tokenizer("more entries than the model has rows");
  for (const json& entry : vocabulary) {
    const bool sound = entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
                       entry[1].is_number() && !entry[0].get_ref<const std::string&>().empty() &&
                       std::isfinite(entry[1].get<float>());
    if (!sound) {
      return bad_tokenizer("entry " + std::to_string(parts.entries.size()) +
                           " is not a text with a score");
    }
    parts.entries.push_back({entry[0].get<std::string>(), entry[1].get<float>()});
  }
  return {};
}

// "left right" or ["left", "right"].
Result<std::vector<Merge>> read_merges(const json& model) {
  const auto list = model.find("merges");
  if (list == model.end() || !list->is_array()) return bad_tokenizer("the model has no merges");
  std::vector<Merge> merges;
  merges.reserve(list->size());
  for (const json& entry : *list) {
    if (entry.is_string()) {
      const auto& line = entry.get_ref<const std::string&>();
      const std::size_t space = line.find(' ', 1);
      if (space == line.npos) return bad_tokenizer("\"" + line.substr(0, 80) + "\" is not a merge");
      merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
               entry[1].is_string()) {
      merges.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
    } else {
      return bad_tokenizer("merge " + std::to_string(merges.size()) + " is not a pair of texts");
    }
  }
  return merges;
}

Result<void> read_added_tokens(const json& file, const TextSteps& steps, std::size_t count,
                               TokenizerParts& parts) {
  const auto added = file.find("added_tokens");
  if (added == file.end() || added->is_null()) return {};
  if (!added->is_array()) return bad_tokenizer("added_tokens is not a list");
  for (const json& entry : *added) {
    if (!entry.is_object()) return bad_tokenizer("an added token is not an object");
    const auto id = json_u32(entry, "id");
    if (!id) return id.error();
    const auto text = json_string(entry, "content");
    if (!text) return text.error();
    if (!*id || !*text || (*text)->empty())
      return bad_tokenizer("an added token has no id or no content");
    if (auto done = check_added_token(entry, **text, "tokenizer.json"); !done) return done;
    const auto special = json_bool(entry, "special");
    if (!special) return special.error();
    const TokenType type = special->value_or(false) ? TokenType::control : TokenType::user_defined;
    const auto normalized = json_bool(entry, "normalized");
    if (!normalized) return normalized.error();
    const bool is_prepended_to = steps.space_rule == SpaceRule::each;
    if (type == TokenType::user_defined && is_prepended_to && normalized->value_or(false)) {
      // It would only match at the start of a part of the text.
      return unsupported_tokenizer("the added token " + **text +
                                   " with normalized after the normalizer Prepend");
    }
    parts.add_token(**id, count, **text, type);
  }
  return {};
}

// Checks for duplicates and builds the index, with texts in SentencePiece's and GGUF's spelling.
Result<Index> index_of(const TokenizerParts& parts) {
  Index index;
  index.reserve(parts.entries.size());
  for (std::size_t i = 0; i < parts.entries.size(); ++i) {
    const std::string& text = parts.entries[i].text;
    if (text.size() > kEntryBytesMax || text.find('\0') != text.npos || !is_valid_utf8(text)) {
      return bad_tokenizer("entry " + std::to_string(i) + " is not a text or is too long");
    }
    if (!index.try_emplace(text, static_cast<std::uint32_t>(i)).second) {
      return bad_tokenizer("the entry \"" + text.substr(0, 80) + "\" occurs twice");
    }
  }
  return index;
}

// Adds GGUF's lines "left right".
Result<void> add_merges(const std::vector<Merge>& merges, const Index& index,
                        TokenizerParts& parts) {
  for (const auto& [left, right] : merges) {
    if (left.find(' ') != left.npos || right.find(' ') != right.npos) {
      return bad_tokenizer("a merge of texts with a space");
    }
    if (!index.contains(left) || !index.contains(right) || !index.contains(left + right)) {
      return bad_tokenizer("the merge " + left + " " + right +
                           " uses an entry that is not in the vocabulary");
    }
    parts.merges.push_back(left + " " + right);
  }
  return {};
}

Result<void> finish_byte_level(const json& model, const TextSteps& steps,
                               const std::optional<std::string>& pre,
                               const std::vector<Merge>& merges, const Index& index,
                               TokenizerParts& parts) {
  const auto ignore_merges = json_bool(model, "ignore_merges");
  if (!ignore_merges) return ignore_merges.error();
  const auto rules =
      pre ? find_pre_tokenizer_rules(*pre)
          : find_pre_tokenizer_rules(steps.patterns, steps.nfc, ignore_merges->value_or(false));
  if (!rules) return rules.error();
  const auto unknown = json_string(model, "unk_token");
  if (!unknown) return unknown.error();
  for (unsigned byte = 0; byte < 256 && *unknown; ++byte) {
    if (!index.contains(letter_of(static_cast<unsigned char>(byte)))) {
      return unsupported_tokenizer("unk_token with a ByteLevel vocabulary that lacks a byte");
    }
  }
  parts.model = "gpt2";
  parts.pre = pre ? *pre : std::string((*rules)->name);
  return add_merges(merges, index, parts);
}

Result<void> finish_gemma(const json& model, const TextSteps& steps,
                          const std::vector<Merge>& merges, const Index& index,
                          TokenizerParts& parts) {
  const auto ignore_merges = json_bool(model, "ignore_merges");
  if (!ignore_merges) return ignore_merges.error();
  if (ignore_merges->value_or(false)) {
    return unsupported_tokenizer("ignore_merges with SentencePiece's pieces");
  }
  if (steps.space_rule != SpaceRule::none) {
    return unsupported_tokenizer("a Split at spaces with a space before the text");
  }
  // The encoder splits at line ends, as llama.cpp does.
  for (const TokenizerParts::Entry& entry : parts.entries) {
    const auto line_ends = std::ranges::count(entry.text, '\n');
    if (line_ends > 0 && static_cast<std::size_t>(line_ends) != entry.text.size()) {
      return unsupported_tokenizer("a piece with a line end and other text");
    }
  }
  parts.model = "gemma4";
  parts.pre = "gemma4";
  return add_merges(merges, index, parts);
}

// Marks unk_token and the bytes <0x..>.
Result<void> mark_pieces(const json& model, std::optional<std::uint32_t> unknown,
                         TokenizerParts& parts) {
  const auto byte_fallback = json_bool(model, "byte_fallback");
  if (!byte_fallback) return byte_fallback.error();
  for (TokenizerParts::Entry& entry : parts.entries) {
    if (byte_fallback->value_or(false) && byte_of(entry.text)) entry.type = TokenType::byte;
  }
  if (!unknown || *unknown >= parts.entries.size())
    return unsupported_tokenizer("a model without unk_token");
  parts.entries[*unknown].type = TokenType::unknown;
  parts.unknown = unknown;
  return {};
}

// A vocabulary whose pre-tokenizer splits at spaces is equivalent without it only if no piece spans
// a space.
Result<void> check_spaces(const TextSteps& steps, const TokenizerParts& parts) {
  if (!steps.splits_at_spaces) return {};
  for (const TokenizerParts::Entry& entry : parts.entries) {
    if (entry.type == TokenType::normal && entry.text.find(kSpaceMark, 1) != std::string::npos) {
      return unsupported_tokenizer("Metaspace that splits \"" + entry.text + "\"");
    }
  }
  return {};
}

// SentencePiece joins the neighbours whose joint piece has the best score. The order of merges is
// equivalent only if all merges of a piece are adjacent and none is missing.
Result<void> score_by_merges(const std::vector<Merge>& merges, const Index& index,
                             TokenizerParts& parts) {
  constexpr std::size_t kNever = static_cast<std::size_t>(-1);
  std::vector<std::size_t> last_rank(parts.entries.size(), kNever);
  std::unordered_set<std::uint64_t> pairs;
  const auto key = [](std::uint32_t left, std::uint32_t right) {
    return std::uint64_t{left} << 32 | right;
  };
  for (TokenizerParts::Entry& entry : parts.entries) {
    if (entry.type == TokenType::normal) entry.score = -static_cast<float>(merges.size());
  }
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const auto left_id = index.find(left);
    const auto right_id = index.find(right);
    const auto merged = index.find(left + right);
    if (left_id == index.end() || right_id == index.end() || merged == index.end()) {
      return bad_tokenizer("the merge " + left + " " + right +
                           " uses an entry that is not in the vocabulary");
    }
    std::size_t& last = last_rank[merged->second];
    TokenizerParts::Entry& entry = parts.entries[merged->second];
    if (last == kNever && entry.type == TokenType::normal) entry.score = -static_cast<float>(rank);
    if (last != kNever && last + 1 != rank) {
      return unsupported_tokenizer(
          "BPE with byte_fallback whose merges do not order its pieces (\"" + entry.text + "\")");
    }
    last = rank;
    pairs.insert(key(left_id->second, right_id->second));
  }
  for (const TokenizerParts::Entry& entry : parts.entries) {
    if (entry.type != TokenType::normal) continue;
    const std::string_view text = entry.text;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if ((static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) continue;
      const auto left = index.find(text.substr(0, cut));
      const auto right = index.find(text.substr(cut));
      if (left == index.end() || right == index.end()) continue;
      if (parts.entries[left->second].type != TokenType::normal ||
          parts.entries[right->second].type != TokenType::normal) {
        continue;
      }
      if (!pairs.contains(key(left->second, right->second))) {
        return unsupported_tokenizer("BPE with byte_fallback that lacks a merge into \"" +
                                     entry.text + "\"");
      }
    }
  }
  return {};
}

Result<TokenizerParts> read_bpe(const json& file, const json& model, std::size_t count,
                                const std::optional<std::string>& pre) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto affix = json_string(model, key);
    if (!affix) return affix.error();
    if (*affix && !(*affix)->empty()) return unsupported_tokenizer(std::string("BPE with ") + key);
  }
  const auto dropout = json_number(model, "dropout");
  if (!dropout) return dropout.error();
  if (dropout->value_or(0.0) != 0.0) return unsupported_tokenizer("BPE with dropout");
  const auto vocabulary = model.find("vocab");
  if (vocabulary == model.end() || !vocabulary->is_object()) {
    return bad_tokenizer("the model has no vocabulary");
  }
  const auto merges = read_merges(model);
  if (!merges) return merges.error();
  const auto steps = read_text_steps(file, pre ? Splits::ignore : Splits::read);
  if (!steps) return steps.error();

  TokenizerParts parts;
  if (auto done = read_vocabulary_map(*vocabulary, count, parts); !done) return done.error();
  if (!steps->byte_level) {
    const auto unknown = json_string(model, "unk_token");
    if (!unknown) return unknown.error();
    const auto id = *unknown ? parts.find(**unknown) : std::nullopt;
    if (auto done = mark_pieces(model, id, parts); !done) return done.error();
  }
  if (auto done = read_added_tokens(file, *steps, count, parts); !done) return done.error();
  const auto index = index_of(parts);
  if (!index) return index.error();
  if (steps->byte_level) {
    auto done = finish_byte_level(model, *steps, pre, *merges, *index, parts);
    if (!done) return done.error();
    return parts;
  }
  if (steps->is_gemma) {
    auto done = finish_gemma(model, *steps, *merges, *index, parts);
    if (!done) return done.error();
    return parts;
  }
  parts.model = "llama";
  parts.space_rule = steps->space_rule;
  if (auto done = check_spaces(*steps, parts); !done) return done.error();
  if (auto done = score_by_merges(*merges, *index, parts); !done) return done.error();
  return parts;
}

Result<TokenizerParts> read_unigram(const json& file, const json& model, std::size_t count) {
  const auto vocabulary = model.find("vocab");
  if (vocabulary == model.end() || !vocabulary->is_array()) {
    return bad_tokenizer("the model has no vocabulary");
  }
  const auto steps = read_text_steps(file);
  if (!steps) return steps.error();
  if (steps->byte_level) return unsupported_tokenizer("ByteLevel with a Unigram model");
  const auto unknown = json_u32(model, "unk_id");
  if (!unknown) return unknown.error();

  TokenizerParts parts;
  if (auto done = read_vocabulary_list(*vocabulary, count, parts); !done) return done.error();
  if (auto done = mark_pieces(model, *unknown, parts); !done) return done.error();
  if (auto done = read_added_tokens(file, *steps, count, parts); !done) return done.error();
  if (const auto index = index_of(parts); !index) return index.error();
  if (auto done = check_spaces(*steps, parts); !done) return done.error();
  parts.model = "t5";
  parts.space_rule = steps->space_rule;
  parts.remove_extra_whitespaces = false;
  return parts;
}

}  // namespace

Result<void> check_added_token(const json& token, const std::string& text,
                               const std::string& file) {
  for (const char* key : {"lstrip", "rstrip", "single_word"}) {
    const auto flag = json_bool(token, key);
    if (!flag) return flag.error();
    if (flag->value_or(false)) {
      return Error{Errc::unsupported,
                   file + ": the added token " + text + " with " + key + " is not supported"};
    }
  }
  return {};
}

Result<TokenizerParts> read_tokenizer_json(const json& file, std::size_t count,
                                           const std::optional<std::string>& pre) {
  const auto model = file.find("model");
  if (model == file.end() || !model->is_object()) return bad_tokenizer("the model is missing");
  const auto type = json_string(*model, "type");
  if (!type) return type.error();
  const std::string kind = type->value_or("BPE");  // missing in old files
  auto parts = kind == "BPE" ? read_bpe(file, *model, count, pre)
               : kind == "Unigram"
                   ? read_unigram(file, *model, count)
                   : Result<TokenizerParts>(unsupported_tokenizer("the model " + kind));
  if (!parts) return parts;
  if (auto done = read_post_processor(file, *parts); !done) return done.error();
  return parts;
}

}  // namespace edgedraft
