#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "client/serve/api_error.h"
#include "client/serve/call_form.h"

namespace edgedraft {

// A function that an answer may ask for.
struct Tool {
  std::string name;
  std::string description;
  nlohmann::ordered_json parameters;  // a JSON Schema
  bool is_strict = false;             // refused if the grammar does not enforce all of it
};

enum class ToolUse : std::uint8_t {
  none,
  free,    // the answer is text, or calls
  forced,  // it is calls
};

// The functions of a request, and how it may use them. A grammar holds calls to the form that the
// model writes them in, and to the functions' schemas.
struct Tools {
  std::vector<Tool> list;
  ToolUse use = ToolUse::none;
  bool parallel = true;  // several calls, one behind another
  CallForm form{};

  // What the model is told of them where its chat template does not tell it.
  std::string instructions() const;
  // What its chat template is told: a JSON array as OpenAI's.
  std::string as_json() const;
  // Adds the words of their schemas that it does not enforce to `unenforced`.
  //
  // Errors    of the functions' schemas
  ApiResult<std::string> grammar(std::set<std::string>& unenforced) const;
};

}  // namespace edgedraft
