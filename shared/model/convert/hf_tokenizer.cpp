#include "shared/model/convert/hf_tokenizer.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shared/model/convert/hf_tokenizer_json.h"
#include "shared/model/convert/tokenizer_json_steps.h"
#include "shared/model/convert/tokenizer_parts.h"
#include "shared/model/json_file.h"
#include "shared/model/mapped_file.h"
#include "shared/model/sentencepiece_proto.h"
#include "shared/model/tokenizer/space_rule.h"
#include "shared/model/tokenizer/vocabulary.h"

namespace edgedraft {
namespace {

using nlohmann::json;

// Reads a tokenizer.model.
Result<TokenizerParts> read_sentencepiece(const std::filesystem::path& path) {
  using Algorithm = SentencePieceModel::Algorithm;
  const auto file = MappedFile::open(path);
  if (!file) return file.error();
  auto model = decode_sentencepiece_model(file->bytes());
  if (!model) {
    return Error{model.error().code,
                 path.string() + ": " + model.error().message +
                     "; other kinds, such as tiktoken, are not supported: save the tokenizer "
                     "as tokenizer.json (transformers: AutoTokenizer.from_pretrained(DIR)"
                     ".save_pretrained(DIR))"};
  }
  if (model->algorithm != Algorithm::bpe && model->algorithm != Algorithm::unigram) {
    return Error{Errc::unsupported,
                 path.string() + ": only byte-pair encoding and unigram are supported"};
  }
  if (model->changes_text) {
    return Error{Errc::unsupported,
                 path.string() + ": a tokenizer that rewrites its text is not supported"};
  }
  TokenizerParts parts;
  parts.model = model->algorithm == Algorithm::bpe ? "llama" : "t5";
  for (SentencePieceModel::Piece& piece : model->pieces) {
    parts.entries.push_back({std::move(piece.text), piece.score, piece.type});
  }
  if (model->unk_id >= 0 && static_cast<std::size_t>(model->unk_id) < parts.entries.size()) {
    parts.unknown = static_cast<std::uint32_t>(model->unk_id);
  }
  parts.space_rule = model->add_dummy_prefix ? SpaceRule::each : SpaceRule::none;
  if (model->remove_extra_whitespaces) parts.remove_extra_whitespaces = true;
  return parts;
}

// Adds the tokens that older folders keep beside tokenizer.model, {"<|im_end|>": 32000,
// ...}. The file does not say which are special.
Result<void> add_older_tokens(const std::filesystem::path& path, std::size_t count,
                              TokenizerParts& parts) {
  if (!std::filesystem::exists(path)) return {};
  const auto file = read_json_object(path);
  if (!file) return file.error();
  const std::size_t piece_count = parts.entries.size();
  std::unordered_map<std::string, std::size_t> ids;
  for (std::size_t i = 0; i < piece_count; ++i) ids.try_emplace(parts.entries[i].text, i);
  for (const auto& [text, id] : file->items()) {
    const std::string name = path.string() + ": \"" + text.substr(0, 80) + "\"";
    if (text.empty() || text.find('\0') != text.npos)
      return bad_file(name + " is not the text of a token");
    if (!id.is_number_unsigned()) return bad_file(name + " has no id");
    const auto at = id.get<std::size_t>();
    if (at >= count) {
      parts.add_token(at, count, text, TokenType::user_defined);
      continue;
    }
    if (const auto known = ids.try_emplace(text, at).first; known->second != at) {
      return bad_file(name + " has the id " + std::to_string(at) + ", but in tokenizer.model " +
                      std::to_string(known->second));
    }
    const bool is_filler = at >= piece_count && (at >= parts.entries.size() ||
                                                 parts.entries[at].type == TokenType::unused);
    if (!is_filler && parts.entries[at].text != text) {
      return bad_file(name + " has the id of \"" + parts.entries[at].text.substr(0, 80) + "\"");
    }
    // Some files also list <s> and the like, which keep their type.
    const TokenType type = is_filler ? TokenType::unused : parts.entries[at].type;
    if (type == TokenType::control || type == TokenType::unknown || type == TokenType::byte) {
      continue;
    }
    parts.add_token(at, count, text, TokenType::user_defined);
  }
  return {};
}

// Adds tokens of tokenizer_config.json that tokenizer.model lacks.
Result<void> add_listed_tokens(const json& config, std::size_t count, TokenizerParts& parts) {
  const auto added = config.find("added_tokens_decoder");
  if (added == config.end() || !added->is_object()) return {};
  for (const auto& [key, entry] : added->items()) {
    const bool digits =
        !key.empty() && key.size() <= 9 &&
        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits) return bad_file("added_tokens_decoder has the invalid key \"" + key + "\"");
    const auto text = json_string(entry, "content");
    if (!text) return text.error();
    const auto special = json_bool(entry, "special");
    if (!special) return special.error();
    if (!*text || (*text)->empty()) return bad_file("the added token " + key + " has no content");
    auto checked = check_added_token(entry, **text, "tokenizer_config.json");
    if (!checked) return checked;
    const TokenType type = special->value_or(false) ? TokenType::control : TokenType::user_defined;
    parts.add_token(std::stoul(key), count, **text, type);
  }
  return {};
}

// Space rule of the tokenizer.json beside tokenizer.model; nullopt without a readable one.
std::optional<SpaceRule> json_space_rule(const std::filesystem::path& directory) {
  const auto path = directory / "tokenizer.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  const auto file = read_json_object(path);
  if (!file) return std::nullopt;
  const auto steps = read_text_steps(*file);
  if (!steps || steps->byte_level) return std::nullopt;
  return steps->space_rule;
}

// Sets the space rule from tokenizer_config.json, or from the tokenizer.json read in place of
// tokenizer.model if the former sets none.
//
// Source    transformers' LlamaTokenizer: unless "legacy", it ignores tokenizer.model's settings
//           for spaces before a text and for repeated ones. LlamaTokenizerFast uses tokenizer.json
//           as it is, unless add_prefix_space is set.
Result<void> set_space_rule(const std::filesystem::path& directory, const json& config,
                            TokenizerParts& parts) {
  const auto prefix = json_bool(config, "add_prefix_space");
  if (!prefix) return prefix.error();
  if (const auto rule = *prefix ? std::nullopt : json_space_rule(directory)) {
    parts.space_rule = *rule;
    parts.remove_extra_whitespaces.reset();
    return {};
  }
  const auto legacy = json_bool(config, "legacy");
  if (!legacy) return legacy.error();
  if (legacy->value_or(true)) {
    if (*prefix) parts.space_rule = **prefix ? SpaceRule::each : SpaceRule::none;
    return {};
  }
  parts.space_rule = prefix->value_or(true) ? SpaceRule::first : SpaceRule::none;
  parts.remove_extra_whitespaces.reset();
  return {};
}

// Id for "bos_token": "<s>" or {"content": "<s>"}.
std::optional<std::uint32_t> id_of(const json& config, const char* key,
                                   const TokenizerParts& parts) {
  const auto found = config.find(key);
  if (found == config.end()) return std::nullopt;
  const json& value =
      found->is_object() && found->contains("content") ? (*found)["content"] : *found;
  return value.is_string() ? parts.find(value.get<std::string>()) : std::nullopt;
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

// Requires  parts already padded to the model's vocabulary
Result<void> add_special_ids(const json& tokenizer_config, const HfConfig& config,
                             const TokenizerParts& parts, GgufMetadata& metadata) {
  const auto outside = [&](const char* key, std::uint32_t id) {
    return bad_file(std::string(key) + " is " + std::to_string(id) +
                    ", outside the vocabulary of " + std::to_string(parts.entries.size()) +
                    " tokens");
  };
  std::optional<std::uint32_t> bos = parts.bos;
  if (!bos) bos = id_of(tokenizer_config, "bos_token", parts);
  if (!bos) bos = config.bos_id;
  if (bos && *bos >= parts.entries.size()) return outside("bos_token_id", *bos);
  if (bos) metadata.set_u32("tokenizer.ggml.bos_token_id", *bos);
  // The tokenizer's own end first, then those that the model was trained with.
  std::vector<std::uint32_t> ends;
  if (const auto eos = id_of(tokenizer_config, "eos_token", parts)) ends.push_back(*eos);
  for (const std::uint32_t id : config.eos_ids) {
    if (id >= parts.entries.size()) return outside("eos_token_id", id);
    if (std::find(ends.begin(), ends.end(), id) != ends.end()) continue;
    if (ends.size() == kEndIdsMax) {
      return bad_file("eos_token_id lists more than " + std::to_string(kEndIdsMax) + " tokens");
    }
    ends.push_back(id);
  }
  constexpr const char* kKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                   "tokenizer.ggml.eom_token_id"};
  for (std::size_t i = 0; i < std::min(ends.size(), std::size(kKeys)); ++i) {
    metadata.set_u32(kKeys[i], ends[i]);
  }
  if (ends.size() > std::size(kKeys)) {
    metadata.set_i32s(std::string(kEndIdsKey), std::vector<std::int32_t>(ends.begin(), ends.end()));
  }
  return {};
}

Result<TokenizerParts> read_json_parts(const std::filesystem::path& directory, std::size_t count,
                                       const std::optional<std::string>& pre) {
  const auto file = read_json_object(directory / "tokenizer.json");
  if (!file) return file.error();
  auto parts = read_tokenizer_json(*file, count, pre);
  if (!parts) return Error{parts.error().code, directory.string() + ": " + parts.error().message};
  return parts;
}

Result<TokenizerParts> read_parts(const std::filesystem::path& directory,
                                  const json& tokenizer_config, std::size_t count,
                                  const std::optional<std::string>& pre) {
  if (std::filesystem::exists(directory / "tokenizer.model")) {
    auto parts = read_sentencepiece(directory / "tokenizer.model");
    if (!parts) {
      // Llama 3's tokenizer.model is in tiktoken's format; its tokenizer.json has the same content.
      const bool is_of_another_kind = parts.error().code == Errc::bad_file;
      if (is_of_another_kind && std::filesystem::exists(directory / "tokenizer.json")) {
        return read_json_parts(directory, count, pre);
      }
      return parts;
    }
    auto added = add_older_tokens(directory / "added_tokens.json", count, *parts);
    if (!added) return added.error();
    if (auto done = add_listed_tokens(tokenizer_config, count, *parts); !done) return done.error();
    if (auto done = set_space_rule(directory, tokenizer_config, *parts); !done) return done.error();
    parts->add_bos = true;
    return parts;
  }
  return read_json_parts(directory, count, pre);
}

std::string what_is_left_out(const std::filesystem::path& directory, const TokenizerParts& parts) {
  if (parts.left_out.empty()) return {};
  std::string tokens;
  for (const std::string& text : parts.left_out) {
    tokens += (tokens.empty() ? "\"" : ", \"") + text.substr(0, 80) + '"';
  }
  return directory.string() +
         ": left out added tokens of the tokenizer without a row in the model: " + tokens;
}

}  // namespace

Result<std::string> add_hf_tokenizer(const std::filesystem::path& directory, const HfConfig& config,
                                     const std::optional<std::string>& pre,
                                     GgufMetadata& metadata) {
  if (!std::filesystem::exists(directory / "tokenizer.model") &&
      !std::filesystem::exists(directory / "tokenizer.json")) {
    if (std::filesystem::exists(directory / "vocab.json")) {
      return Error{Errc::unsupported,
                   directory.string() +
                       ": a tokenizer of vocab.json and merges.txt is not supported; save it as "
                       "tokenizer.json (transformers: AutoTokenizer.from_pretrained(DIR)"
                       ".save_pretrained(DIR))"};
    }
    return std::string();
  }
  json tokenizer_config = json::object();
  if (std::filesystem::exists(directory / "tokenizer_config.json")) {
    auto read = read_json_object(directory / "tokenizer_config.json");
    if (!read) return read.error();
    tokenizer_config = std::move(*read);
  }
  const std::size_t count = config.decoder.vocabulary_count;
  auto parts = read_parts(directory, tokenizer_config, count, pre);
  if (!parts) return parts.error();
  if (pre && parts->model != "gpt2") {
    return Error{Errc::unsupported, directory.string() + ": the tokenizer becomes '" +
                                        parts->model +
                                        "', which has no pre-tokenizer; remove "
                                        "--pre"};
  }
  if (parts->entries.size() > count) {
    return Error{Errc::mismatch, directory.string() + ": the tokenizer has " +
                                     std::to_string(parts->entries.size()) +
                                     " entries, the model " + std::to_string(count)};
  }
  parts->pad_to(count);
  const auto add_bos = json_bool(tokenizer_config, "add_bos_token");
  if (!add_bos) return add_bos.error();
  if (*add_bos) parts->add_bos = **add_bos;
  const auto chat_template = read_chat_template(directory, tokenizer_config);
  if (!chat_template) return chat_template.error();

  parts->add_to(metadata);
  auto added = add_special_ids(tokenizer_config, config, *parts, metadata);
  if (!added) return Error{added.error().code, directory.string() + ": " + added.error().message};
  if (*chat_template) metadata.set_string("tokenizer.chat_template", **chat_template);
  return what_is_left_out(directory, *parts);
}

}  // namespace edgedraft
