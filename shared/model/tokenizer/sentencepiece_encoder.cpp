#include "shared/model/tokenizer/text_encoder.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "shared/model/tokenizer/space_rule.h"

namespace edgedraft {
namespace {

Result<std::vector<SentencePieceModel::Piece>> read_pieces(const GgufFile& file,
                                                           const Vocabulary& vocabulary) {
  const auto scores = file.get_f32s("tokenizer.ggml.scores");
  if (!scores) return scores.error();
  if (scores->size() != vocabulary.texts.size()) {
    return bad_file("the tokenizer's texts and scores differ in number");
  }
  std::vector<SentencePieceModel::Piece> pieces(scores->size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    pieces[i] = {vocabulary.texts[i], (*scores)[i], vocabulary.types[i]};
    if (!std::isfinite(pieces[i].score)) {
      return bad_file("entry " + std::to_string(i) + " of the tokenizer is damaged");
    }
    if (pieces[i].type == TokenType::byte && !byte_of(pieces[i].text)) {
      return bad_file("entry " + std::to_string(i) + " of the tokenizer is not a byte");
    }
  }
  // SentencePiece requires an entry for text that it cannot spell.
  const auto is_unknown = [](const auto& piece) { return piece.type == TokenType::unknown; };
  if (std::none_of(pieces.begin(), pieces.end(), is_unknown)) {
    pieces[vocabulary.unknown.value_or(0)].type = TokenType::unknown;
  }
  return pieces;
}

class SentencePieceEncoder : public TextEncoder {
 public:
  Result<void> load(const SentencePieceModel& model) {
    const auto status = processor_.LoadFromSerializedProto(encode_sentencepiece_model(model));
    if (status.ok()) return {};
    return bad_file(std::string("the tokenizer is damaged: ") + status.error_message());
  }

  void encode(std::string_view text, std::vector<std::uint32_t>& ids) const override {
    if (text.empty()) return;
    std::vector<int> pieces;
    const auto status = processor_.Encode(text, &pieces);
    if (!status.ok()) {
      throw Failure({Errc::bad_file, std::string("the tokenizer cannot encode this text: ") +
                                         status.error_message()});
    }
    for (const int id : pieces) ids.push_back(static_cast<std::uint32_t>(id));
  }

  std::string bytes_of(std::string_view text) const override { return without_space_marks(text); }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

Result<std::unique_ptr<TextEncoder>> make_sentencepiece_encoder(
    const GgufFile& file, SentencePieceModel::Algorithm algorithm, const Vocabulary& vocabulary) {
  const GgufValue* map = file.find_value("tokenizer.ggml.precompiled_charsmap");
  if (map != nullptr && map->count > 0) {
    return Error{Errc::unsupported,
                 "a tokenizer that rewrites its text (tokenizer.ggml.precompiled_charsmap) is not "
                 "supported"};
  }
  auto pieces = read_pieces(file, vocabulary);
  if (!pieces) return pieces.error();
  const auto space_rule = read_space_rule(file);
  if (!space_rule) return space_rule.error();
  const auto extra_spaces = file.get_bool_or("tokenizer.ggml.remove_extra_whitespaces", false);
  if (!extra_spaces) return extra_spaces.error();

  SentencePieceModel model;
  model.pieces = std::move(*pieces);
  model.algorithm = algorithm;
  model.add_dummy_prefix = *space_rule == SpaceRule::each;
  model.remove_extra_whitespaces = *extra_spaces;
  model.bos_id = -1;
  model.eos_id = -1;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    SentencePieceModel::Piece& piece = model.pieces[i];
    model.byte_fallback = model.byte_fallback || piece.type == TokenType::byte;
    if (piece.type == TokenType::unknown) model.unk_id = static_cast<std::int32_t>(i);
    // The tokenizer matches control tokens; SentencePiece must not find any in a text.
    const bool hidden =
        piece.type != TokenType::unknown && vocabulary.is_control(static_cast<std::uint32_t>(i));
    if (hidden) {
      piece.type = TokenType::control;
      piece.text = "\x01" + ("control" + std::to_string(i));
    }
  }
  auto encoder = std::make_unique<SentencePieceEncoder>();
  if (auto loaded = encoder->load(model); !loaded) return loaded.error();
  return std::unique_ptr<TextEncoder>(std::move(encoder));
}

}  // namespace edgedraft
