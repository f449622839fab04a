#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/serve/json/api_error.h"

namespace edgedraft::client {

// Builds grammars (shared/constraints) of the JSON texts that a schema allows. Texts are compact,
// with at most one space after ':' and ','; properties come in the schema's order.
//
// Enforced keywords of JSON Schema: type, properties, required, additionalProperties, propertyNames
// (without properties), items, prefixItems, minItems, maxItems, minLength, maxLength, pattern,
// common values of format, bounds of integers, enum, const, anyOf, oneOf (as anyOf), allOf, $ref
// within the schema. For other keywords it accepts every value that they might allow, and reports
// them.
class SchemaGrammar {
 public:
  using Schema = nlohmann::ordered_json;

  // `param` names the schema's field in errors.
  explicit SchemaGrammar(std::string param) : param_(std::move(param)) {}

  // Returns the name of a rule for texts of that schema, which must outlive this object.
  //
  // Errors    in error(): the schema is malformed, too large, or allows no value
  std::string rule_of(const Schema& schema);
  // Keywords since the last call that the grammar does not enforce, or not completely.
  std::set<std::string> take_unenforced() { return std::exchange(unenforced_, {}); }
  // Adds a rule. Returns its name.
  std::string add(const std::string& hint, const std::string& body);
  // Quotes text as a literal of the grammar.
  static std::string literal(std::string_view text);

  const std::optional<ApiError>& error() const { return error_; }
  // Returns all rules, with `root` made of `body`.
  std::string grammar(const std::string& body) const { return "root ::= " + body + "\n" + rules_; }

 private:
  using Reference = std::pair<const Schema*, std::string>;  // root, and the referenced pointer

  // Schemas that a value must satisfy together; none: any value.
  struct All {
    std::vector<const Schema*> schemas{};
    // Lists of anyOf and oneOf that have a chosen schema already.
    std::set<const Schema*> chosen{};

    auto operator<=>(const All&) const = default;
  };
  struct Range {
    std::uint32_t least;
    std::optional<std::uint32_t> most;
  };

  // The following return an empty text if no value is valid, or on an error.
  std::string value(All all, const Schema& root, std::size_t depth);
  std::string of_all(const All& all, const Schema& root, std::size_t depth);
  std::string typed(const std::string& type, const All& all, const Schema& root, std::size_t depth);
  std::string object(const All& all, const Schema& root, std::size_t depth);
  std::string record(const All& all, const All& others, const Schema& root, std::size_t depth);
  std::string array(const All& all, const Schema& root, std::size_t depth);
  std::string text(const All& all);
  std::string integer(const All& all);
  std::string reference(const std::string& to, const Schema& root, std::size_t depth);
  // True if a text of the reference may begin with another text of the same reference: grammars
  // must not be left-recursive. `known_good` holds the references visited, false while in progress.
  bool begins_with_itself(const Reference& reference, std::map<Reference, bool>& known_good) const;
  std::string values(const All& all, const std::optional<std::vector<std::string>>& types);
  std::string choice(const Schema& list, All all, const Schema& root, std::size_t depth);
  // Adds a rule for member names other than these.
  std::string other_name(std::span<const std::string> names, std::size_t at);

  // Adds the schemas of allOf and $ref. False if no value is valid.
  bool expand(All& all, const Schema& root);
  const Schema* target_of(const std::string& reference, const Schema& root);
  // Types allowed by all of them; empty if none names a type.
  std::optional<std::vector<std::string>> types_of(const All& all);
  // Reports unsupported keywords for values of that type ("": any).
  void leave_words_of(const All& all, std::string_view type);
  void leave(std::string_view word) { unenforced_.emplace(word); }
  // Counts work, which is bounded because schemas are untrusted.
  void spend(std::size_t work);

  // Returns a rule shared by all schemas, added on first use.
  std::string common(const std::string& name);
  Range bounds(const All& all, const char* least, const char* most);
  void refuse(const std::string& what);

  std::string param_;
  std::string rules_;
  std::uint32_t count_ = 0;
  std::size_t spent_ = 0;
  std::uint32_t repeats_ = 0;
  std::set<std::string> unenforced_;
  // Rules by schema set, complete or in progress.
  std::map<All, std::string> known_;
  std::map<std::string, bool> common_;
  std::map<Reference, std::string> references_;
  // Reference whose rule is in progress, while nothing precedes this place in it; otherwise empty.
  std::optional<Reference> leading_;
  // Per reference: references that its texts may begin with.
  std::map<Reference, std::set<Reference>> beginnings_;
  std::optional<ApiError> error_;
};

// "minimum, not"
std::string listed(const std::set<std::string>& words);
// Error for a schema with `strict: true`. `what` lists the keywords that are not enforced.
ApiError unenforced_error(const std::string& param, const std::string& what);

}  // namespace edgedraft::client
