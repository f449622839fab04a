#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "client/serve/api_error.h"

namespace edgedraft {

// Grammars (shared/constraints) of JSON texts that a schema allows. They are compact, with at most
// one space behind ':' and ','; properties come in the schema's order.
//
// It knows these words of JSON Schema: type, properties, required, additionalProperties, items,
// prefixItems, minItems, maxItems, minLength, maxLength, enum, const, anyOf, oneOf (as anyOf),
// allOf of one, $ref within the schema. Words that would restrict texts further are refused, not
// ignored.
class SchemaGrammar {
 public:
  using Schema = nlohmann::ordered_json;

  // `param` names the field that schemas come in, for errors.
  explicit SchemaGrammar(std::string param) : param_(std::move(param)) {}

  // The name of a rule for texts of that schema.
  //
  // Errors    in error()
  std::string rule_of(const Schema& schema);
  // A rule by itself. Returns its name.
  std::string add(const std::string& hint, const std::string& body);
  // A text as a literal of the grammar.
  static std::string literal(std::string_view text);

  const std::optional<ApiError>& error() const { return error_; }
  // All rules so far, with `root` made of `body`.
  std::string grammar(const std::string& body) const { return "root ::= " + body + "\n" + rules_; }

 private:
  using Reference = std::pair<const Schema*, std::string>;  // root, and where it leads

  std::string value(const Schema& schema, const Schema& root, std::size_t depth);
  std::string typed(const std::string& type, const Schema& schema, const Schema& root,
                    std::size_t depth);
  std::string object(const Schema& schema, const Schema& root, std::size_t depth);
  std::string array(const Schema& schema, const Schema& root, std::size_t depth);
  std::string text(const Schema& schema);
  std::string reference(const std::string& to, const Schema& root, std::size_t depth);
  // Whether a text of the reference may begin with another text of the same reference: no grammar
  // can be left-recursive. `known_good` holds the references asked about so far, false while the
  // answer is still being found.
  bool begins_with_itself(const Reference& reference, std::map<Reference, bool>& known_good) const;
  // The rule of a schema whose values `word` names: $ref, const, enum, anyOf, oneOf or allOf.
  std::string chosen(const std::string& word, const Schema& schema, const Schema& root,
                     std::size_t depth);
  // Those of `list` that are of the schema's type.
  std::string values(const Schema& list, const Schema& schema);
  std::string choice(const Schema& list, const Schema& schema, const Schema& root,
                     std::size_t depth);
  // Rules that all schemas share, added when they are first used.
  std::string common(const std::string& name);
  std::uint32_t bound(const Schema& schema, const char* name, std::uint32_t otherwise);
  void refuse(const std::string& what);

  std::string param_;
  std::string rules_;
  std::uint32_t count_ = 0;
  std::map<std::string, bool> common_;
  std::map<Reference, std::string> references_;
  // The reference whose rule is being made, as long as nothing has been written before this place;
  // otherwise none.
  std::optional<Reference> leading_;
  // For each reference, those that its texts may begin with.
  std::map<Reference, std::set<Reference>> beginnings_;
  std::optional<ApiError> error_;
};

}  // namespace edgedraft
