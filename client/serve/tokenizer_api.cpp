#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "client/serve/api_service.h"
#include "client/serve/json/json_fields.h"

namespace edgedraft::client {
namespace {

// A token and its piece take hundreds of bytes in the answer, and a token may be one byte.
constexpr std::size_t kPiecesBytesMax = 256u << 10;

}  // namespace

ApiResult<HttpAnswer> tokenize(std::string_view body, const Tokenizer& tokenizer) {
  nlohmann::json object;
  if (const auto wrong = parse_object(body, object)) return *wrong;
  JsonFields fields(object);
  std::string content;
  bool add_special = false;
  bool parse_special = false;
  bool with_pieces = false;
  fields.read("content", content);
  fields.read("add_special", add_special);
  fields.read("parse_special", parse_special);
  fields.read("with_pieces", with_pieces);
  if (with_pieces && content.size() > kPiecesBytesMax) {
    fields.refuse("content",
                  "at most " + std::to_string(kPiecesBytesMax) + " bytes with 'with_pieces'");
  }
  if (fields.error()) return *fields.error();
  auto ids = tokenizer.encode(content, parse_special ? Special::parse : Special::plain);
  if (add_special && tokenizer.add_bos() && tokenizer.bos_id()) {
    ids.insert(ids.begin(), *tokenizer.bos_id());
  }
  auto tokens = nlohmann::ordered_json::array();
  for (const std::uint32_t id : ids) {
    if (with_pieces) {
      tokens.push_back({{"id", id}, {"piece", tokenizer.token_bytes(id)}});
    } else {
      tokens.push_back(id);
    }
  }
  return json_answer({{"tokens", std::move(tokens)}});
}

ApiResult<HttpAnswer> detokenize(std::string_view body, const Tokenizer& tokenizer) {
  nlohmann::json object;
  if (const auto wrong = parse_object(body, object)) return *wrong;
  JsonFields fields(object);
  const nlohmann::json* const list = fields.find("tokens");
  std::vector<std::uint32_t> ids;
  const bool right = list != nullptr && list->is_array() &&
                     std::ranges::all_of(*list, [&](const nlohmann::json& id) {
                       if (!id.is_number_unsigned() || id >= tokenizer.vocabulary_count())
                         return false;
                       ids.push_back(id.get<std::uint32_t>());
                       return true;
                     });
  if (!right) fields.refuse("tokens", "an array of token ids of the vocabulary");
  if (fields.error()) return *fields.error();
  return json_answer({{"content", decode(tokenizer, ids, LeadingSpace::strip)}});
}

}  // namespace edgedraft::client
