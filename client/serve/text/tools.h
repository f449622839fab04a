#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "client/serve/json/api_error.h"
#include "client/serve/text/call_form.h"

namespace edgedraft::client {

// A function that an answer may call.
struct Tool {
  std::string name;
  std::string description;
  nlohmann::ordered_json parameters;  // a JSON Schema
  bool is_strict = false;             // refused if the grammar does not enforce all of it
};

enum class ToolUse : std::uint8_t {
  none,
  free,    // text or calls
  forced,  // calls only
};

// Functions of a request and how it may use them. A grammar keeps calls to the model's form and to
// the functions' schemas.
struct Tools {
  std::vector<Tool> list;
  ToolUse use = ToolUse::none;
  bool parallel = true;  // several calls in sequence
  CallForm form{};

  // Instructions for the model if its chat template does not describe functions.
  std::string instructions() const;
  // Input for the chat template: a JSON array in OpenAI's format.
  std::string as_json() const;
  // Adds keywords that the grammar does not enforce to `unenforced`.
  //
  // Errors    of the functions' schemas
  ApiResult<std::string> grammar(std::set<std::string>& unenforced) const;
};

}  // namespace edgedraft::client
