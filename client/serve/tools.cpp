#include "client/serve/tools.h"

#include <algorithm>

#include "client/serve/schema_grammar.h"

namespace edgedraft {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string Tools::instructions() const {
  std::string text =
      "You can call functions. To call one, answer with nothing but a line of JSON such as "
      "{\"name\": \"FUNCTION\", \"arguments\": {...}}. The functions are:";
  for (const Tool& tool : list) {
    Json described = {{"name", tool.name}};
    if (!tool.description.empty()) described["description"] = tool.description;
    described["parameters"] = tool.parameters;
    text += '\n' + described.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return text;
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
    const std::string call =
        rules.add("call", R"("{\"name\": " )" +
                              SchemaGrammar::literal(Json(tool.name).dump() + ", \"arguments\": ") +
                              ' ' + arguments + R"( "}")");
    any += (any.empty() ? "" : " | ") + call;
  }
  const std::string one = rules.add("function", any);
  const std::string calls = parallel ? one + R"( ("\n" )" + one + ")*" : one;
  return rules.grammar(use == ToolUse::forced ? calls : calls + R"( | ([^{] .*)?)");
}

std::string line_of(const ToolCall& call) {
  return "{\"name\": " + Json(call.name).dump(-1, ' ', false, Json::error_handler_t::replace) +
         ", \"arguments\": " + call.arguments + "}";
}

std::optional<std::vector<ToolCall>> parse_calls(const std::string& text) {
  std::vector<ToolCall> calls;
  std::size_t begin = 0;
  while (begin < text.size()) {
    // Line ends within texts are escaped in JSON.
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const Json call = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!call.is_object() || !call.contains("name") || !call["name"].is_string() ||
        !call.contains("arguments") || !call["arguments"].is_object()) {
      return std::nullopt;
    }
    ToolCall one{.name = call["name"].get<std::string>(), .arguments = {}};
    // As they were written, so that the line is the same when the client sends it back.
    const std::string before = line_of(one).substr(0, line_of(one).size() - 1);
    one.arguments = line.starts_with(before)
                        ? line.substr(before.size(), line.size() - before.size() - 1)
                        : call["arguments"].dump();
    calls.push_back(std::move(one));
    begin = end + 1;
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

}  // namespace edgedraft
