#include "shared/model/tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/model/sentencepiece_proto.h"
#include "shared/model/special_matcher.h"
#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

constexpr std::uint64_t kVocabularyCountMax = 1u << 24;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";      // U+2581, SentencePiece's space
constexpr std::string_view kUnknownText = " \xE2\x81\x87 ";  // U+2047, as SentencePiece decodes it

Error bad(std::string message) {
  return {Errc::bad_file, std::move(message)};
}

// The byte that "<0x0A>" stands for.
std::optional<char> byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const auto byte = from_hex(text.substr(3, 2));
  if (!byte) return std::nullopt;
  return static_cast<char>((*byte)[0]);
}

Result<std::vector<SentencePieceModel::Piece>> read_pieces(const GgufFile& file) {
  const auto texts = file.get_strings("tokenizer.ggml.tokens");
  if (!texts) return texts.error();
  const auto scores = file.get_f32s("tokenizer.ggml.scores");
  if (!scores) return scores.error();
  const auto types = file.get_i32s("tokenizer.ggml.token_type");
  if (!types) return types.error();
  if (texts->empty() || texts->size() > kVocabularyCountMax) {
    return bad("the tokenizer has " + std::to_string(texts->size()) + " entries");
  }
  if (scores->size() != texts->size() || types->size() != texts->size()) {
    return bad("the tokenizer's texts, scores and types differ in number");
  }
  std::vector<SentencePieceModel::Piece> pieces(texts->size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view text = (*texts)[i];
    const std::int32_t type = (*types)[i];
    const bool sound = !text.empty() && text.find('\0') == text.npos && is_valid_utf8(text) &&
                       type >= 1 && type <= 6 && std::isfinite((*scores)[i]);
    if (!sound) return bad("entry " + std::to_string(i) + " of the tokenizer is damaged");
    pieces[i] = {std::string(text), (*scores)[i], TokenType{static_cast<std::uint8_t>(type)}};
    if (pieces[i].type == TokenType::byte && !byte_of(text)) {
      return bad("entry " + std::to_string(i) + " of the tokenizer is no byte");
    }
  }
  return pieces;
}

Result<std::optional<std::uint32_t>> read_id(const GgufFile& file, std::string_view key,
                                             std::size_t count) {
  if (file.find_value(key) == nullptr) return std::optional<std::uint32_t>{};
  const auto id = file.get_u32(key);
  if (!id) return id.error();
  if (*id >= count) return bad(std::string(key) + " lies outside the vocabulary");
  return std::optional<std::uint32_t>{*id};
}

// SentencePiece needs one entry that stands for what it cannot spell.
Result<void> ensure_unknown(const GgufFile& file, std::vector<SentencePieceModel::Piece>& pieces) {
  const auto is_unknown = [](const auto& piece) { return piece.type == TokenType::unknown; };
  if (std::any_of(pieces.begin(), pieces.end(), is_unknown)) return {};
  const auto id = read_id(file, "tokenizer.ggml.unknown_token_id", pieces.size());
  if (!id) return id.error();
  pieces[id->value_or(0)].type = TokenType::unknown;
  return {};
}

}  // namespace

struct Tokenizer::State {
  sentencepiece::SentencePieceProcessor processor;
  std::vector<SentencePieceModel::Piece> pieces;
  SpecialMatcher specials;
  std::optional<std::uint32_t> bos;
  std::optional<std::uint32_t> eos;
  std::vector<std::uint32_t> ends;
  bool add_bos;
  bool add_space_prefix;

  // Appends the ids of text without specials.
  void encode_plain(std::string_view text, std::vector<std::uint32_t>& ids) const {
    if (text.empty()) return;
    std::vector<int> pieces_of_text;
    const auto status = processor.Encode(text, &pieces_of_text);
    if (!status.ok()) {
      throw Failure({Errc::bad_file, std::string("the tokenizer cannot encode this text: ") +
                                         status.error_message()});
    }
    for (const int id : pieces_of_text) ids.push_back(static_cast<std::uint32_t>(id));
  }
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Result<Tokenizer> Tokenizer::read(const GgufFile& file) {
  const auto kind = file.get_string("tokenizer.ggml.model");
  if (!kind) return kind.error();
  if (*kind != "llama") {
    return Error{Errc::unsupported, "the tokenizer '" + std::string(*kind) +
                                        "' is not supported yet; 'llama' (SentencePiece) is"};
  }
  auto pieces = read_pieces(file);
  if (!pieces) return pieces.error();
  if (auto done = ensure_unknown(file, *pieces); !done) return done.error();
  const auto space_prefix = file.get_bool_or("tokenizer.ggml.add_space_prefix", true);
  if (!space_prefix) return space_prefix.error();
  const auto add_bos = file.get_bool_or("tokenizer.ggml.add_bos_token", true);
  if (!add_bos) return add_bos.error();
  const auto bos = read_id(file, "tokenizer.ggml.bos_token_id", pieces->size());
  if (!bos) return bos.error();
  const auto eos = read_id(file, "tokenizer.ggml.eos_token_id", pieces->size());
  if (!eos) return eos.error();
  std::vector<std::uint32_t> ends;
  for (const std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                     "tokenizer.ggml.eom_token_id"}) {
    const auto id = read_id(file, key, pieces->size());
    if (!id) return id.error();
    if (*id) ends.push_back(**id);
  }

  SentencePieceModel model;
  model.pieces = *pieces;
  model.algorithm = SentencePieceModel::Algorithm::bpe;
  model.add_dummy_prefix = *space_prefix;
  model.remove_extra_whitespaces = false;
  model.bos_id = -1;
  model.eos_id = -1;
  std::vector<std::pair<std::string, std::uint32_t>> specials;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    SentencePieceModel::Piece& piece = model.pieces[i];
    model.byte_fallback = model.byte_fallback || piece.type == TokenType::byte;
    if (piece.type == TokenType::unknown) model.unk_id = static_cast<std::int32_t>(i);
    if (piece.type == TokenType::control || piece.type == TokenType::unknown) {
      specials.emplace_back(piece.text, static_cast<std::uint32_t>(i));
    }
    // We look for control tokens ourselves; SentencePiece must not take a character for one.
    if (piece.type == TokenType::control)
      piece.text =
          "\x01"
          "control" +
          std::to_string(i);
  }
  std::unique_ptr<State> state(new State{.processor = {},
                                         .pieces = {},
                                         .specials = SpecialMatcher(std::move(specials)),
                                         .bos = *bos,
                                         .eos = *eos,
                                         .ends = std::move(ends),
                                         .add_bos = *add_bos && bos->has_value(),
                                         .add_space_prefix = *space_prefix});
  const auto status = state->processor.LoadFromSerializedProto(encode_sentencepiece_model(model));
  if (!status.ok()) {
    return bad(std::string("the tokenizer is damaged: ") + status.error_message());
  }
  state->pieces = std::move(*pieces);
  return Tokenizer(std::move(state));
}

std::vector<std::uint32_t> Tokenizer::encode(std::string_view text, Special special) const {
  std::vector<std::uint32_t> ids;
  std::size_t begin = 0;
  if (special == Special::parse) {
    while (const auto match = state_->specials.find(text, begin)) {
      state_->encode_plain(text.substr(begin, match->begin - begin), ids);
      ids.push_back(match->id);
      begin = match->end;
    }
  }
  state_->encode_plain(text.substr(begin), ids);
  return ids;
}

bool Tokenizer::add_bos() const {
  return state_->add_bos;
}
std::optional<std::uint32_t> Tokenizer::bos_id() const {
  return state_->bos;
}
std::optional<std::uint32_t> Tokenizer::eos_id() const {
  return state_->eos;
}
bool Tokenizer::adds_space_prefix() const {
  return state_->add_space_prefix;
}

bool Tokenizer::is_end(std::uint32_t id) const {
  return std::find(state_->ends.begin(), state_->ends.end(), id) != state_->ends.end();
}

std::uint32_t Tokenizer::vocabulary_count() const {
  return static_cast<std::uint32_t>(state_->pieces.size());
}

std::string_view Tokenizer::token_text(std::uint32_t id) const {
  EDGEDRAFT_CHECK(id < state_->pieces.size());
  return state_->pieces[id].text;
}

TokenType Tokenizer::token_type(std::uint32_t id) const {
  EDGEDRAFT_CHECK(id < state_->pieces.size());
  return state_->pieces[id].type;
}

std::string Tokenizer::token_bytes(std::uint32_t id) const {
  std::string_view text = token_text(id);
  if (is_end(id)) return {};
  switch (token_type(id)) {
    case TokenType::control:
      return {};
    case TokenType::unknown:
      return std::string(kUnknownText);
    case TokenType::byte:
      return std::string(1, *byte_of(text));
    default:
      break;
  }
  std::string bytes;
  for (std::size_t mark; (mark = text.find(kSpaceMark)) != text.npos;) {
    bytes += text.substr(0, mark);
    bytes += ' ';
    text.remove_prefix(mark + kSpaceMark.size());
  }
  return bytes += text;
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
