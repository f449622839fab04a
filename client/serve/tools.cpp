#include "client/serve/tools.h"

#include <map>
#include <string_view>

#include "client/serve/begun_mark.h"
#include "client/serve/schema_grammar.h"

namespace edgedraft {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json described(const Tool& tool) {
  Json described = {{"name", tool.name}};
  if (!tool.description.empty()) described["description"] = tool.description;
  described["parameters"] = tool.parameters;
  return described;
}

// How much of `mark` stands at the end of its first `matched` characters and one more.
std::size_t matched_behind(std::string_view mark, std::size_t matched, char next) {
  const std::string read = std::string(mark.substr(0, matched)) + next;
  return read == mark ? mark.size() : begun_mark(read, mark);
}

// Rules for a text without `mark`, or one that ends with the first of it and goes on with `then`:
// free-N is what may follow the first N characters of the mark.
std::string rules_of_text(std::string_view mark, const std::string& then) {
  std::string known;  // the mark's characters, as a class has them
  for (const char c : mark) {
    if (std::string_view("]^-\\").find(c) != std::string_view::npos) known += '\\';
    known += c;
  }
  std::string rules;
  for (std::size_t matched = 0; matched < mark.size(); ++matched) {
    std::map<char, std::size_t> next;
    for (const char c : mark) next[c] = matched_behind(mark, matched, c);
    rules += "free-" + std::to_string(matched) + " ::= ([^" + known + "] free-0";
    for (const auto& [c, to] : next) {
      rules += " | " + SchemaGrammar::literal(std::string(1, c)) + ' ';
      rules += to == mark.size() ? then : "free-" + std::to_string(to);
    }
    rules += ")?\n";
  }
  return rules;
}

}  // namespace

std::string Tools::instructions() const {
  std::string text =
      "You can call functions. To call one, answer with nothing but a line of JSON such as "
      "{\"name\": \"FUNCTION\", \"arguments\": {...}}. The functions are:";
  for (const Tool& tool : list) text += '\n' + dump(described(tool));
  return text;
}

std::string Tools::as_json() const {
  Json tools = Json::array();
  for (const Tool& tool : list) {
    tools.push_back({{"type", "function"}, {"function", described(tool)}});
  }
  return dump(tools);
}

ApiResult<std::string> Tools::grammar() const {
  SchemaGrammar rules("tools");
  std::string any;
  for (const Tool& tool : list) {
    const std::string arguments = rules.rule_of(tool.parameters);
    if (rules.error()) {
      ApiError error = *rules.error();
      error.message = "function '" + tool.name + "': " + error.message;
      return error;
    }
    any += (any.empty() ? "" : " | ") + SchemaGrammar::literal(tool.name + form.middle) + ' ' +
           arguments;
  }
  const std::string one = rules.add("function", any);
  std::string more = one;
  if (parallel && form.between) {
    more += " (" + SchemaGrammar::literal(*form.between) + ' ' + one + ")*";
  }
  if (!form.end.empty()) more += ' ' + SchemaGrammar::literal(form.end);
  const std::string calls = SchemaGrammar::literal(form.begin) + ' ' + more;
  if (use == ToolUse::forced) return rules.grammar(calls);
  const std::string_view mark = form.mark();
  if (mark.empty()) {
    return rules.grammar(calls + " | ([^" + form.begin.front() + "] .*)?");
  }
  const std::string then =
      rules.add("calls", SchemaGrammar::literal(form.begin.substr(mark.size())) + ' ' + more);
  return rules.grammar("free-0") + rules_of_text(mark, then);
}

}  // namespace edgedraft
