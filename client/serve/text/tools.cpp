#include "client/serve/text/tools.h"

#include <map>
#include <string_view>
#include <vector>

#include "client/json_line.h"
#include "client/serve/schema/schema_grammar.h"
#include "client/text/begun_mark.h"
#include "client/text/thoughts.h"
#include "shared/model/utf8.h"

namespace edgedraft::client {
namespace {

using Json = nlohmann::ordered_json;

Json described(const Tool& tool) {
  Json described = {{"name", tool.name}};
  if (!tool.description.empty()) described["description"] = tool.description;
  described["parameters"] = tool.parameters;
  return described;
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_front(text.substr(at)).byte_count;
    characters.push_back(text.substr(at, length));
    at += length;
  }
  return characters;
}

// Characters in a grammar's class.
std::string listed(const std::vector<std::string_view>& characters) {
  std::string listed;
  for (const std::string_view c : characters) {
    if (std::string_view("]^-\\").find(c) != std::string_view::npos) listed += '\\';
    listed += c;
  }
  return listed;
}

// Bytes of `mark` matched after its first `matched` bytes and `next`.
std::size_t matched_behind(std::string_view mark, std::size_t matched, std::string_view next) {
  const std::string read = std::string(mark.substr(0, matched)) + std::string(next);
  return read == mark ? mark.size() : begun_mark(read, mark);
}

// Rules for a text without `mark`, or one that ends with its first occurrence and continues with
// `then`. free-N follows the first N bytes of the mark.
std::string rules_of_text(std::string_view mark, const std::string& then) {
  const std::vector<std::string_view> characters = characters_of(mark);
  std::string rules;
  std::size_t matched = 0;
  for (const std::string_view character : characters) {
    std::map<std::string_view, std::size_t> next;
    for (const std::string_view c : characters) next[c] = matched_behind(mark, matched, c);
    rules += "free-" + std::to_string(matched) + " ::= ([^" + listed(characters) + "] free-0";
    for (const auto& [c, to] : next) {
      rules += " | " + SchemaGrammar::literal(c) + ' ';
      rules += to == mark.size() ? then : "free-" + std::to_string(to);
    }
    rules += ")?\n";
    matched += character.size();
  }
  return rules;
}

// Grammar for `calls`, or text that does not begin with their first character. This also holds
// after a thought.
std::string grammar_without_mark(SchemaGrammar& rules, std::string_view calls_begin,
                                 const std::string& calls) {
  const std::string_view begin = characters_of(calls_begin).front();
  const std::string any = rules.add("calls", calls);
  const std::string answer =
      rules.add("answer", "[ \\t\\r\\n]* (" + any + " | [^ \\t\\r\\n" + listed({begin}) + "] .*)?");
  // The text may begin with the end of a thought.
  const std::string_view mark_begin = characters_of(kThoughtEnd).front();
  std::string text = "[^" + listed({begin, mark_begin}) + "] free-0";
  if (begin != mark_begin) text += " | " + SchemaGrammar::literal(mark_begin) + " free-1";
  return rules.grammar(any + " | (" + text + ")?") + rules_of_text(kThoughtEnd, answer);
}

}  // namespace

std::string Tools::instructions() const {
  std::string text =
      "You can call functions. To call one, answer with nothing but a line of JSON such as "
      "{\"name\": \"FUNCTION\", \"arguments\": {...}}. The functions are:";
  for (const Tool& tool : list) text += '\n' + json_line(described(tool));
  return text;
}

std::string Tools::as_json() const {
  Json tools = Json::array();
  for (const Tool& tool : list) {
    tools.push_back({{"type", "function"}, {"function", described(tool)}});
  }
  return json_line(tools);
}

ApiResult<std::string> Tools::grammar(std::set<std::string>& unenforced) const {
  SchemaGrammar rules("tools");
  std::string any;
  std::string strict;  // unenforced keywords of strict functions
  for (const Tool& tool : list) {
    const std::string arguments = rules.rule_of(tool.parameters);
    if (rules.error()) {
      ApiError error = *rules.error();
      error.message = "function '" + tool.name + "': " + error.message;
      return error;
    }
    auto words = rules.take_unenforced();
    if (tool.is_strict && !words.empty()) {
      strict += (strict.empty() ? "" : "; ") + ("function '" + tool.name + "': ") + listed(words);
    }
    unenforced.merge(words);
    any += (any.empty() ? "" : " | ") + SchemaGrammar::literal(tool.name + form.middle) + ' ' +
           arguments;
  }
  if (!strict.empty()) return unenforced_error("tools", strict);
  const std::string one = rules.add("function", any);
  std::string more = one;
  if (parallel && form.between) {
    more += " (" + SchemaGrammar::literal(*form.between) + ' ' + one + ")*";
  }
  if (!form.end.empty()) more += ' ' + SchemaGrammar::literal(form.end);
  const std::string calls = SchemaGrammar::literal(form.begin) + ' ' + more;
  if (use == ToolUse::forced) return rules.grammar(calls);
  const std::string_view mark = form.mark();
  if (mark.empty()) return grammar_without_mark(rules, form.begin, calls);
  const std::string then =
      rules.add("calls", SchemaGrammar::literal(form.begin.substr(mark.size())) + ' ' + more);
  return rules.grammar("free-0") + rules_of_text(mark, then);
}

}  // namespace edgedraft::client
