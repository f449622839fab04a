#include "shared/model/convert/hf_tokenizer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/model/json_file.h"
#include "shared/model/mapped_file.h"
#include "shared/model/sentencepiece_proto.h"

namespace edgedraft {
namespace {

using nlohmann::json;

constexpr float kAddedScore = -1000.0f;  // as llama.cpp gives to entries that SentencePiece lacks

Error bad(std::string message) {
  return {Errc::bad_file, std::move(message)};
}

Result<SentencePieceModel> read_model(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  if (!file) return file.error();
  auto model = decode_sentencepiece_model(file->bytes());
  if (!model) return Error{model.error().code, path.string() + ": " + model.error().message};
  if (model->algorithm != SentencePieceModel::Algorithm::bpe) {
    return Error{Errc::unsupported, path.string() + ": only byte-pair encoding is supported"};
  }
  if (model->changes_text || model->remove_extra_whitespaces) {
    return Error{Errc::unsupported,
                 path.string() + ": a tokenizer that rewrites its text is not supported"};
  }
  return model;
}

// Entry `id`, which may lie behind the SentencePiece model's own.
Result<void> add_token(SentencePieceModel& model, std::size_t id, std::size_t count,
                       const std::string& text, TokenType type) {
  if (id >= count) return bad("the added token " + text + " lies outside the vocabulary");
  while (model.pieces.size() <= id) {
    const std::string filler = "[PAD" + std::to_string(model.pieces.size()) + "]";
    model.pieces.push_back({filler, kAddedScore, TokenType::unused});
  }
  SentencePieceModel::Piece& piece = model.pieces[id];
  if (piece.type == TokenType::unknown) return {};
  if (piece.text != text) piece = {text, kAddedScore, type};
  piece.type = type;
  return {};
}

Result<void> add_listed_tokens(const json& config, std::size_t count, SentencePieceModel& model) {
  const auto added = config.find("added_tokens_decoder");
  if (added == config.end() || !added->is_object()) return {};
  for (const auto& [key, entry] : added->items()) {
    const bool digits =
        !key.empty() && key.size() <= 9 &&
        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits) return bad("added_tokens_decoder has the key \"" + key + "\"");
    const auto text = json_string(entry, "content");
    if (!text) return text.error();
    const auto special = json_bool(entry, "special");
    if (!special) return special.error();
    if (!*text || (*text)->empty()) return bad("the added token " + key + " has no content");
    const TokenType type = special->value_or(false) ? TokenType::control : TokenType::user_defined;
    if (auto done = add_token(model, std::stoul(key), count, **text, type); !done) {
      return done.error();
    }
  }
  return {};
}

// "bos_token": "<s>" or {"content": "<s>"}: its id.
std::optional<std::uint32_t> id_of(const json& config, const char* key,
                                   const SentencePieceModel& model) {
  const auto found = config.find(key);
  if (found == config.end()) return std::nullopt;
  const json& value =
      found->is_object() && found->contains("content") ? (*found)["content"] : *found;
  if (!value.is_string()) return std::nullopt;
  const std::string text = value.get<std::string>();
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    if (model.pieces[i].text == text) return static_cast<std::uint32_t>(i);
  }
  return std::nullopt;
}

// chat_template.jinja, or the string or list of named strings in tokenizer_config.json.
Result<std::optional<std::string>> read_chat_template(const std::filesystem::path& directory,
                                                      const json& config) {
  const auto path = directory / "chat_template.jinja";
  if (std::filesystem::exists(path)) {
    const auto file = MappedFile::open(path);
    if (!file) return file.error();
    const ByteView bytes = file->bytes();
    return std::optional<std::string>(std::in_place, reinterpret_cast<const char*>(bytes.data()),
                                      bytes.size());
  }
  const auto found = config.find("chat_template");
  if (found == config.end() || !found->is_array()) return json_string(config, "chat_template");
  for (const json& entry : *found) {
    const auto name = json_string(entry, "name");
    if (name && *name == "default") return json_string(entry, "template");
  }
  return std::optional<std::string>{};
}

void add_special_ids(const json& tokenizer_config, const HfConfig& config,
                     const SentencePieceModel& model, GgufMetadata& metadata) {
  const auto add = [&](const char* key, std::optional<std::uint32_t> id) {
    if (id && *id < model.pieces.size()) metadata.set_u32(key, *id);
  };
  std::optional<std::uint32_t> bos = id_of(tokenizer_config, "bos_token", model);
  if (!bos) bos = config.bos_id;
  std::optional<std::uint32_t> eos = id_of(tokenizer_config, "eos_token", model);
  std::optional<std::uint32_t> eot;
  for (const std::uint32_t id : config.eos_ids) {
    if (!eos) eos = id;
    if (id != *eos && !eot) eot = id;
  }
  add("tokenizer.ggml.bos_token_id", bos);
  add("tokenizer.ggml.eos_token_id", eos);
  add("tokenizer.ggml.eot_token_id", eot);
  add("tokenizer.ggml.unknown_token_id", static_cast<std::uint32_t>(model.unk_id));
}

void add_vocabulary(const SentencePieceModel& model, GgufMetadata& metadata) {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    texts.push_back(piece.text);
    scores.push_back(piece.score);
    types.push_back(static_cast<std::int32_t>(piece.type));
  }
  metadata.set_string("tokenizer.ggml.model", "llama");
  metadata.set_string("tokenizer.ggml.pre", "default");
  metadata.set_strings("tokenizer.ggml.tokens", texts);
  metadata.set_f32s("tokenizer.ggml.scores", scores);
  metadata.set_i32s("tokenizer.ggml.token_type", types);
}

}  // namespace

Result<void> add_hf_tokenizer(const std::filesystem::path& directory, const HfConfig& config,
                              GgufMetadata& metadata) {
  if (!std::filesystem::exists(directory / "tokenizer.model")) {
    if (!std::filesystem::exists(directory / "tokenizer.json")) return {};
    return Error{Errc::unsupported,
                 directory.string() +
                     " has a tokenizer.json alone, which is not supported yet; a "
                     "SentencePiece tokenizer.model is"};
  }
  auto model = read_model(directory / "tokenizer.model");
  if (!model) return model.error();
  json tokenizer_config = json::object();
  if (std::filesystem::exists(directory / "tokenizer_config.json")) {
    auto read = read_json_object(directory / "tokenizer_config.json");
    if (!read) return read.error();
    tokenizer_config = std::move(*read);
  }
  const std::size_t count = config.decoder.vocabulary_count;
  if (auto done = add_listed_tokens(tokenizer_config, count, *model); !done) return done.error();
  if (model->pieces.size() > count) {
    return Error{Errc::mismatch, directory.string() + ": the tokenizer has " +
                                     std::to_string(model->pieces.size()) + " entries, the model " +
                                     std::to_string(count)};
  }
  while (model->pieces.size() < count) {
    const std::string filler = "[PAD" + std::to_string(model->pieces.size()) + "]";
    model->pieces.push_back({filler, kAddedScore, TokenType::unused});
  }
  const auto add_bos = json_bool(tokenizer_config, "add_bos_token");
  if (!add_bos) return add_bos.error();
  const auto space_prefix = json_bool(tokenizer_config, "add_prefix_space");
  if (!space_prefix) return space_prefix.error();
  const auto chat_template = read_chat_template(directory, tokenizer_config);
  if (!chat_template) return chat_template.error();

  add_vocabulary(*model, metadata);
  add_special_ids(tokenizer_config, config, *model, metadata);
  metadata.set_bool("tokenizer.ggml.add_bos_token", add_bos->value_or(true));
  metadata.set_bool("tokenizer.ggml.add_space_prefix",
                    space_prefix->value_or(model->add_dummy_prefix));
  if (*chat_template) metadata.set_string("tokenizer.chat_template", **chat_template);
  return {};
}

}  // namespace edgedraft
