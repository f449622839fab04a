#include "shared/model/tokenizer.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "shared/base/check.h"
#include "shared/model/tokenizer/pre_tokenizer.h"
#include "shared/model/tokenizer/space_rule.h"
#include "shared/model/tokenizer/text_encoder.h"
#include "shared/model/tokenizer/vocabulary.h"
#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

// Finds special tokens in a text, the longest at each position.
class SpecialMatcher {
 public:
  struct Match {
    std::size_t begin;
    std::size_t end;
    std::uint32_t id;
  };
  using Allowed = std::function<bool(const Match&)>;

  // Empty texts never match.
  explicit SpecialMatcher(std::vector<std::pair<std::string, std::uint32_t>> texts);

  // First match from `begin` on that `allowed` accepts.
  std::optional<Match> find(std::string_view text, std::size_t begin, const Allowed& allowed) const;

 private:
  std::optional<Match> match_at(std::string_view text, std::size_t begin,
                                const Allowed& allowed) const;

  std::vector<std::pair<std::string, std::uint32_t>> texts_;  // sorted by text
  std::array<bool, 256> begins_one_{};                        // by first byte
};

SpecialMatcher::SpecialMatcher(std::vector<std::pair<std::string, std::uint32_t>> texts)
    : texts_(std::move(texts)) {
  std::erase_if(texts_, [](const auto& entry) { return entry.first.empty(); });
  std::sort(texts_.begin(), texts_.end());
  for (const auto& entry : texts_) begins_one_[static_cast<unsigned char>(entry.first[0])] = true;
}

std::optional<SpecialMatcher::Match> SpecialMatcher::find(std::string_view text, std::size_t begin,
                                                          const Allowed& allowed) const {
  for (; begin < text.size(); ++begin) {
    if (!begins_one_[static_cast<unsigned char>(text[begin])]) continue;
    if (auto match = match_at(text, begin, allowed)) return match;
  }
  return std::nullopt;
}

// Walks the sorted texts like a trie: [first, last) start with the bytes read so far.
std::optional<SpecialMatcher::Match> SpecialMatcher::match_at(std::string_view text,
                                                              std::size_t begin,
                                                              const Allowed& allowed) const {
  std::optional<Match> longest;
  auto first = texts_.begin();
  auto last = texts_.end();
  for (std::size_t depth = 0; begin + depth < text.size() && first != last; ++depth) {
    const auto next = static_cast<unsigned char>(text[begin + depth]);
    const auto at_depth = [depth](const auto& entry) {
      return depth < entry.first.size() ? static_cast<unsigned char>(entry.first[depth]) : -1;
    };
    first = std::partition_point(first, last, [&](const auto& e) { return at_depth(e) < next; });
    last = std::partition_point(first, last, [&](const auto& e) { return at_depth(e) <= next; });
    if (first != last && first->first.size() == depth + 1) {
      const Match match{begin, begin + depth + 1, first->second};
      if (allowed(match)) longest = match;
    }
  }
  return longest;
}

constexpr std::string_view kUnknownText = " \xE2\x81\x87 ";  // U+2047, as decoded by SentencePiece

enum class Kind : std::uint8_t { bpe, gemma4_bpe, sentencepiece_bpe, sentencepiece_unigram };

bool is_sentencepiece(Kind kind) {
  return kind == Kind::sentencepiece_bpe || kind == Kind::sentencepiece_unigram;
}

Result<Kind> read_kind(const GgufFile& file) {
  const auto name = file.get_string("tokenizer.ggml.model");
  if (!name) return name.error();
  if (*name == "gpt2") return Kind::bpe;
  if (*name == "gemma4") return Kind::gemma4_bpe;
  if (*name == "llama") return Kind::sentencepiece_bpe;
  if (*name == "t5") return Kind::sentencepiece_unigram;
  return Error{Errc::unsupported,
               "the tokenizer '" + std::string(*name) +
                   "' (tokenizer.ggml.model) is not supported; gpt2 (byte-level BPE), gemma4 (BPE "
                   "with SentencePiece's spaces), llama (SentencePiece BPE) and t5 (SentencePiece "
                   "unigram) are"};
}

Result<const PreTokenizerRules*> read_rules(const GgufFile& file, Kind kind) {
  if (kind == Kind::gemma4_bpe) return find_pre_tokenizer_rules("gemma4");
  const auto name = file.get_string_or("tokenizer.ggml.pre", "default");
  if (!name) return name.error();
  return find_pre_tokenizer_rules(*name);
}

// Matches control tokens and user-defined symbols before encoding the rest. SentencePiece would
// find the symbols itself, but put no space after them.
SpecialMatcher make_matcher(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string, std::uint32_t>> texts;
  for (std::uint32_t id = 0; id < vocabulary.texts.size(); ++id) {
    const bool is_symbol = vocabulary.types[id] == TokenType::user_defined;
    if (is_symbol || vocabulary.is_control(id)) texts.emplace_back(vocabulary.texts[id], id);
  }
  return SpecialMatcher(std::move(texts));
}

}  // namespace

struct Tokenizer::State {
  Vocabulary vocabulary;
  SpecialMatcher specials;
  std::unique_ptr<TextEncoder> encoder;
  bool add_bos;
  SpaceRule space_rule;
};

Result<Tokenizer> Tokenizer::read(const GgufFile& file) {
  const auto kind = read_kind(file);
  if (!kind) return kind.error();
  auto vocabulary = read_vocabulary(file);
  if (!vocabulary) return vocabulary.error();
  SpaceRule space_rule = SpaceRule::none;
  if (is_sentencepiece(*kind)) {
    if (auto kept = keep_one_unknown(*vocabulary); !kept) return kept.error();
    const auto rule = read_space_rule(file);
    if (!rule) return rule.error();
    space_rule = *rule;
  }
  SpecialMatcher specials = make_matcher(*vocabulary);
  // The encoder keeps a reference to the vocabulary.
  std::shared_ptr<State> state(new State{.vocabulary = std::move(*vocabulary),
                                         .specials = std::move(specials),
                                         .encoder = nullptr,
                                         .add_bos = *kind == Kind::sentencepiece_bpe,
                                         .space_rule = space_rule});
  bool requires_bos = false;
  if (is_sentencepiece(*kind)) {
    auto encoder = make_sentencepiece_encoder(file,
                                              *kind == Kind::sentencepiece_bpe
                                                  ? SentencePieceModel::Algorithm::bpe
                                                  : SentencePieceModel::Algorithm::unigram,
                                              state->vocabulary);
    if (!encoder) return encoder.error();
    state->encoder = std::move(*encoder);
  } else {
    const auto rules = read_rules(file, *kind);
    if (!rules) return rules.error();
    state->add_bos = (*rules)->adds_bos;
    requires_bos = (*rules)->requires_bos;
    auto encoder = (*rules)->is_plain ? make_plain_bpe_encoder(file, **rules, state->vocabulary)
                                      : make_byte_bpe_encoder(file, **rules, state->vocabulary);
    if (!encoder) return encoder.error();
    state->encoder = std::move(*encoder);
  }
  const auto add_bos = file.get_bool_or("tokenizer.ggml.add_bos_token", state->add_bos);
  if (!add_bos) return add_bos.error();
  state->add_bos = (*add_bos || requires_bos) && state->vocabulary.bos.has_value();
  return Tokenizer(std::move(state));
}

std::vector<std::uint32_t> Tokenizer::encode(std::string_view text, Special special) const {
  return encode(text, [special](std::size_t, std::size_t) { return special == Special::parse; });
}

std::vector<std::uint32_t> Tokenizer::encode(const MarkedText& text) const {
  return encode(text.text(), [&text](std::size_t begin, std::size_t end) {
    return !text.is_foreign(begin, end);
  });
}

std::vector<std::uint32_t> Tokenizer::encode(std::string_view text,
                                             const Allowed& control_allowed) const {
  const auto allowed = [&](const SpecialMatcher::Match& match) {
    return !state_->vocabulary.is_control(match.id) || control_allowed(match.begin, match.end);
  };
  std::vector<std::uint32_t> ids;
  const auto encode_part = [&](std::size_t begin, std::size_t end) {
    const std::string_view part = text.substr(begin, end - begin);
    if (wants_space(state_->space_rule, part, begin)) {
      state_->encoder->encode(std::string(kSpaceMark).append(part), ids);
    } else {
      state_->encoder->encode(part, ids);
    }
  };
  std::size_t begin = 0;
  while (const auto match = state_->specials.find(text, begin, allowed)) {
    encode_part(begin, match->begin);
    ids.push_back(match->id);
    begin = match->end;
  }
  encode_part(begin, text.size());
  return ids;
}

bool Tokenizer::add_bos() const {
  return state_->add_bos;
}
void Tokenizer::begin_text(std::vector<std::uint32_t>& ids) const {
  if (!state_->add_bos || ids.empty() || ids.front() == bos_id()) return;
  ids.insert(ids.begin(), *bos_id());
}
std::optional<std::uint32_t> Tokenizer::bos_id() const {
  return state_->vocabulary.bos;
}
std::optional<std::uint32_t> Tokenizer::eos_id() const {
  return state_->vocabulary.eos;
}
bool Tokenizer::adds_space_prefix() const {
  return state_->space_rule != SpaceRule::none;
}
bool Tokenizer::is_end(std::uint32_t id) const {
  return state_->vocabulary.is_end(id);
}

std::uint32_t Tokenizer::vocabulary_count() const {
  return static_cast<std::uint32_t>(state_->vocabulary.texts.size());
}

std::string_view Tokenizer::token_text(std::uint32_t id) const {
  EDGEDRAFT_CHECK(id < vocabulary_count());
  return state_->vocabulary.texts[id];
}

TokenType Tokenizer::token_type(std::uint32_t id) const {
  EDGEDRAFT_CHECK(id < vocabulary_count());
  return state_->vocabulary.types[id];
}

std::string Tokenizer::token_bytes(std::uint32_t id) const {
  const std::string_view text = token_text(id);
  if (is_end(id)) return {};
  switch (token_type(id)) {
    case TokenType::control:
      return {};
    case TokenType::unknown:
      return std::string(kUnknownText);
    case TokenType::byte:
      if (const auto byte = byte_of(text)) return std::string(1, *byte);
      break;
    default:
      break;
  }
  return state_->encoder->bytes_of(text);
}

Detokenizer::Detokenizer(const Tokenizer& tokenizer, LeadingSpace leading_space)
    : tokenizer_(tokenizer), leading_space_(leading_space) {}

std::string Detokenizer::push(std::uint32_t id) {
  const std::string added = tokenizer_.token_bytes(id);
  std::string_view bytes = added;
  if (bytes.empty()) return {};
  if (at_start_ && leading_space_ == LeadingSpace::strip && tokenizer_.adds_space_prefix() &&
      bytes.front() == ' ') {
    bytes.remove_prefix(1);
  }
  at_start_ = false;
  pending_ += bytes;
  return take_whole_utf8(pending_);
}

std::string Detokenizer::finish() {
  at_start_ = true;
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacementCharacter);
}

std::string decode(const Tokenizer& tokenizer, std::span<const std::uint32_t> ids,
                   LeadingSpace leading_space) {
  Detokenizer detokenizer(tokenizer, leading_space);
  std::string text;
  for (const std::uint32_t id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

}  // namespace edgedraft
