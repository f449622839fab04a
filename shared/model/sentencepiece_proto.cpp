#include "shared/model/sentencepiece_proto.h"

#include <optional>

namespace edgedraft {
namespace {

// Protocol Buffers wire types.
enum class Wire : std::uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// Field numbers of sentencepiece_model.proto.
constexpr std::uint32_t kModelPieces = 1;
constexpr std::uint32_t kModelTrainer = 2;
constexpr std::uint32_t kModelNormalizer = 3;
constexpr std::uint32_t kPieceText = 1;
constexpr std::uint32_t kPieceScore = 2;
constexpr std::uint32_t kPieceType = 3;
constexpr std::uint32_t kTrainerAlgorithm = 3;
constexpr std::uint32_t kTrainerByteFallback = 35;
constexpr std::uint32_t kTrainerUnk = 40;
constexpr std::uint32_t kTrainerBos = 41;
constexpr std::uint32_t kTrainerEos = 42;
constexpr std::uint32_t kNormalizerMap = 2;
constexpr std::uint32_t kNormalizerDummyPrefix = 3;
constexpr std::uint32_t kNormalizerExtraSpaces = 4;

void put_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

void put_tag(std::string& to, std::uint32_t field, Wire wire) {
  put_varint(to, field << 3 | static_cast<std::uint32_t>(wire));
}

void put_number(std::string& to, std::uint32_t field, std::int64_t value) {
  put_tag(to, field, Wire::varint);
  put_varint(to, static_cast<std::uint64_t>(value));
}

void put_text(std::string& to, std::uint32_t field, std::string_view text) {
  put_tag(to, field, Wire::bytes);
  put_varint(to, text.size());
  to += text;
}

void put_float(std::string& to, std::uint32_t field, float value) {
  put_tag(to, field, Wire::fixed32);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

// One field of a message. `number` for varints and fixed numbers, `bytes` for others.
struct Field {
  std::uint32_t id = 0;
  Wire wire = Wire::varint;
  std::uint64_t number = 0;
  ByteView bytes;

  bool flag() const { return number != 0; }
  std::int32_t signed_number() const { return static_cast<std::int32_t>(number); }
};

class Message {
 public:
  explicit Message(ByteView bytes) : bytes_(bytes) {}

  // The next field; nullopt at the end or after damage.
  std::optional<Field> next() {
    if (bytes_.empty() || damaged_) return std::nullopt;
    const std::uint64_t tag = varint();
    Field field;
    field.id = static_cast<std::uint32_t>(tag >> 3);
    field.wire = Wire{static_cast<std::uint32_t>(tag & 7)};
    switch (field.wire) {
      case Wire::varint:
        field.number = varint();
        break;
      case Wire::fixed32:
        field.number = fixed<std::uint32_t>();
        break;
      case Wire::fixed64:
        field.number = fixed<std::uint64_t>();
        break;
      case Wire::bytes:
        field.bytes = take(varint());
        break;
      default:
        damaged_ = true;
    }
    if (damaged_) return std::nullopt;
    return field;
  }

  bool damaged() const { return damaged_; }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const ByteView byte = take(1);
      if (byte.empty()) return 0;
      const auto bits = std::to_integer<std::uint64_t>(byte[0]);
      value |= (bits & 0x7F) << shift;
      if (bits < 0x80) return value;
    }
    damaged_ = true;
    return 0;
  }

  template <class T>
  T fixed() {
    const ByteView bytes = take(sizeof(T));
    return bytes.empty() ? T{} : load_le<T>(bytes.data());
  }

  ByteView take(std::uint64_t count) {
    if (count > bytes_.size()) {
      damaged_ = true;
      return {};
    }
    const ByteView taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

  ByteView bytes_;
  bool damaged_ = false;
};

// Each returns true if the message was complete.

bool decode_piece(ByteView bytes, SentencePieceModel::Piece& piece) {
  Message message(bytes);
  while (const auto field = message.next()) {
    if (field->id == kPieceText) {
      piece.text.assign(reinterpret_cast<const char*>(field->bytes.data()), field->bytes.size());
    } else if (field->id == kPieceScore) {
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field->number));
    } else if (field->id == kPieceType) {
      if (field->number < 1 || field->number > 6) return false;
      piece.type = TokenType{static_cast<std::uint8_t>(field->number)};
    }
  }
  return !message.damaged();
}

bool decode_trainer(ByteView bytes, SentencePieceModel& model) {
  Message message(bytes);
  while (const auto field = message.next()) {
    switch (field->id) {
      case kTrainerAlgorithm:
        if (field->number < 1 || field->number > 4) return false;
        model.algorithm = SentencePieceModel::Algorithm{static_cast<std::uint8_t>(field->number)};
        break;
      case kTrainerByteFallback:
        model.byte_fallback = field->flag();
        break;
      case kTrainerUnk:
        model.unk_id = field->signed_number();
        break;
      case kTrainerBos:
        model.bos_id = field->signed_number();
        break;
      case kTrainerEos:
        model.eos_id = field->signed_number();
        break;
      default:
        break;
    }
  }
  return !message.damaged();
}

bool decode_normalizer(ByteView bytes, SentencePieceModel& model) {
  Message message(bytes);
  while (const auto field = message.next()) {
    switch (field->id) {
      case kNormalizerMap:
        model.changes_text = !field->bytes.empty();
        break;
      case kNormalizerDummyPrefix:
        model.add_dummy_prefix = field->flag();
        break;
      case kNormalizerExtraSpaces:
        model.remove_extra_whitespaces = field->flag();
        break;
      default:
        break;
    }
  }
  return !message.damaged();
}

}  // namespace

std::string encode_sentencepiece_model(const SentencePieceModel& model) {
  std::string out;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    std::string message;
    put_text(message, kPieceText, piece.text);
    put_float(message, kPieceScore, piece.score);
    put_number(message, kPieceType, static_cast<std::int64_t>(piece.type));
    put_text(out, kModelPieces, message);
  }
  std::string trainer;
  put_number(trainer, kTrainerAlgorithm, static_cast<std::int64_t>(model.algorithm));
  put_number(trainer, kTrainerByteFallback, model.byte_fallback ? 1 : 0);
  put_number(trainer, kTrainerUnk, model.unk_id);
  put_number(trainer, kTrainerBos, model.bos_id);
  put_number(trainer, kTrainerEos, model.eos_id);
  put_text(out, kModelTrainer, trainer);

  std::string normalizer;
  put_number(normalizer, kNormalizerDummyPrefix, model.add_dummy_prefix ? 1 : 0);
  put_number(normalizer, kNormalizerExtraSpaces, model.remove_extra_whitespaces ? 1 : 0);
  put_text(out, kModelNormalizer, normalizer);
  return out;
}

Result<SentencePieceModel> decode_sentencepiece_model(ByteView bytes) {
  SentencePieceModel model;
  Message message(bytes);
  bool whole = true;
  while (const auto field = message.next()) {
    if (field->id == kModelPieces) {
      whole = whole && decode_piece(field->bytes, model.pieces.emplace_back());
    } else if (field->id == kModelTrainer) {
      whole = whole && decode_trainer(field->bytes, model);
    } else if (field->id == kModelNormalizer) {
      whole = whole && decode_normalizer(field->bytes, model);
    }
  }
  if (!whole || message.damaged() || model.pieces.empty()) {
    return Error{Errc::bad_file, "this is not a SentencePiece model, or it is truncated"};
  }
  return model;
}

}  // namespace edgedraft
