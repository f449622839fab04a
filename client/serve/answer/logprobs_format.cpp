#include "client/serve/answer/logprobs_format.h"

#include <string_view>
#include <utility>

namespace edgedraft::client {
namespace {

using Json = nlohmann::ordered_json;

Json entry_of(const Logprob& logprob, const TokenTexts& texts) {
  const std::string_view text = texts.text(logprob.token);
  Json bytes = Json::array();
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", text}, {"logprob", logprob.value}, {"bytes", std::move(bytes)}};
}

}  // namespace

Json chat_logprobs(std::span<const ToldToken> tokens, const TokenTexts& texts) {
  Json content = Json::array();
  for (const ToldToken& token : tokens) {
    Json entry = entry_of(token.told.front(), texts);
    entry["top_logprobs"] = Json::array();
    for (const Logprob& likely : std::span(token.told).subspan(1)) {
      entry["top_logprobs"].push_back(entry_of(likely, texts));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json text_logprobs(std::span<const ToldToken> tokens, const TokenTexts& texts) {
  Json json = {{"tokens", Json::array()},
               {"token_logprobs", Json::array()},
               {"top_logprobs", Json::array()},
               {"text_offset", Json::array()}};
  for (const ToldToken& token : tokens) {
    json["tokens"].push_back(texts.text(token.told.front().token));
    json["token_logprobs"].push_back(token.told.front().value);
    json["text_offset"].push_back(token.text_offset);
    Json likeliest = Json::object();
    for (const Logprob& likely : std::span(token.told).subspan(1)) {
      likeliest[std::string(texts.text(likely.token))] = likely.value;
    }
    json["top_logprobs"].push_back(std::move(likeliest));
  }
  return json;
}

}  // namespace edgedraft::client
