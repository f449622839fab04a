#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "client/serve/api_error.h"

namespace edgedraft {

// A function that an answer may ask for.
struct Tool {
  std::string name;
  std::string description;
  nlohmann::ordered_json parameters;  // a JSON Schema
};

enum class ToolUse : std::uint8_t {
  none,
  free,    // the answer is text, or calls
  forced,  // it is a call
};

// The functions of a request, and how it may use them. Whatever the model was trained to write, it
// is told of them in the system's message, and calls are lines of
//
//   {"name": "get_weather", "arguments": {"city": "Paris"}}
//
// which a grammar holds it to. A text that does not begin with '{' is no call.
struct Tools {
  std::vector<Tool> list;
  ToolUse use = ToolUse::none;
  bool parallel = true;  // several calls, one behind another

  // What the model is told.
  std::string instructions() const;
  // Errors    of the functions' schemas
  ApiResult<std::string> grammar() const;
};

// A call that an answer asks for.
struct ToolCall {
  std::string name;
  std::string arguments;     // a JSON object, as text
  bool is_restored = false;  // they hold what placeholders stood for
};

// The line that stands for a call.
std::string line_of(const ToolCall& call);
// The calls of an answer's text; nothing if it is no list of whole calls.
std::optional<std::vector<ToolCall>> parse_calls(const std::string& text);

}  // namespace edgedraft
