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

#include "client/serve/api_error.h"

namespace edgedraft {

// Grammars (shared/constraints) of JSON texts that a schema allows. They are compact, with at most
// one space behind ':' and ','; properties come in the schema's order.
//
// It enforces these words of JSON Schema: type, properties, required, additionalProperties,
// propertyNames (without properties), items, prefixItems, minItems, maxItems, minLength, maxLength,
// pattern, common values of format, bounds of integers, enum, const, anyOf, oneOf (as anyOf),
// allOf, $ref within the schema. Where it cannot follow a word it accepts every value that the word
// might allow, and reports the word.
class SchemaGrammar {
 public:
  using Schema = nlohmann::ordered_json;

  // `param` names the field that schemas come in, for errors.
  explicit SchemaGrammar(std::string param) : param_(std::move(param)) {}

  // The name of a rule for texts of that schema, which has to outlive this object.
  //
  // Errors    in error(): the schema is malformed, too large, or allows no value
  std::string rule_of(const Schema& schema);
  // The words met since the last call that the grammar does not enforce, or not completely.
  std::set<std::string> take_unenforced() { return std::exchange(unenforced_, {}); }
  // A rule by itself. Returns its name.
  std::string add(const std::string& hint, const std::string& body);
  // A text as a literal of the grammar.
  static std::string literal(std::string_view text);

  const std::optional<ApiError>& error() const { return error_; }
  // All rules so far, with `root` made of `body`.
  std::string grammar(const std::string& body) const { return "root ::= " + body + "\n" + rules_; }

 private:
  using Reference = std::pair<const Schema*, std::string>;  // root, and where it leads

  // Schemas that a value has to fulfil at once: with none of them, any value is right.
  struct All {
    std::vector<const Schema*> schemas{};
    // Lists of anyOf and oneOf of which one schema is chosen already.
    std::set<const Schema*> chosen{};

    auto operator<=>(const All&) const = default;
  };
  struct Range {
    std::uint32_t least;
    std::optional<std::uint32_t> most;
  };

  // The following return an empty text if no value is right, or on an error.
  std::string value(All all, const Schema& root, std::size_t depth);
  std::string of_all(const All& all, const Schema& root, std::size_t depth);
  std::string typed(const std::string& type, const All& all, const Schema& root, std::size_t depth);
  std::string object(const All& all, const Schema& root, std::size_t depth);
  std::string record(const All& all, const All& others, const Schema& root, std::size_t depth);
  std::string array(const All& all, const Schema& root, std::size_t depth);
  std::string text(const All& all);
  std::string integer(const All& all);
  std::string reference(const std::string& to, const Schema& root, std::size_t depth);
  // Whether a text of the reference may begin with another text of the same reference: no grammar
  // can be left-recursive. `known_good` holds the references asked about so far, false while the
  // answer is still being found.
  bool begins_with_itself(const Reference& reference, std::map<Reference, bool>& known_good) const;
  std::string values(const All& all, const std::optional<std::vector<std::string>>& types);
  std::string choice(const Schema& list, All all, const Schema& root, std::size_t depth);
  // A rule for names of members that are none of these.
  std::string other_name(std::span<const std::string> names, std::size_t at);

  // Adds what allOf and $ref lead to. False if no value is right.
  bool expand(All& all, const Schema& root);
  const Schema* target_of(const std::string& reference, const Schema& root);
  // The types that all of them allow; nothing if none names a type.
  std::optional<std::vector<std::string>> types_of(const All& all);
  // Reports words that are not followed for values of that type ("": of any).
  void leave_words_of(const All& all, std::string_view type);
  void leave(std::string_view word) { unenforced_.emplace(word); }
  // Counts work, of which a schema of a stranger may cause little.
  void spend(std::size_t work);

  // Rules that all schemas share, added when they are first used.
  std::string common(const std::string& name);
  Range bounds(const All& all, const char* least, const char* most);
  void refuse(const std::string& what);

  std::string param_;
  std::string rules_;
  std::uint32_t count_ = 0;
  std::size_t spent_ = 0;
  std::uint32_t repeats_ = 0;
  std::set<std::string> unenforced_;
  // Rules of several schemas at once, made or being made.
  std::map<All, std::string> known_;
  std::map<std::string, bool> common_;
  std::map<Reference, std::string> references_;
  // The reference whose rule is being made, as long as nothing has been written before this place;
  // otherwise none.
  std::optional<Reference> leading_;
  // For each reference, those that its texts may begin with.
  std::map<Reference, std::set<Reference>> beginnings_;
  std::optional<ApiError> error_;
};

// "minimum, not"
std::string listed(const std::set<std::string>& words);
// For a schema with `strict: true`. `what` lists all words that are not enforced.
ApiError unenforced_error(const std::string& param, const std::string& what);

}  // namespace edgedraft
