#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft::netsim {

struct Prompt {
  std::string id;  // task and index within it: "tool-3"
  std::string task;
  std::string text;
  std::string reference;  // empty: none
};

// Prompts of a file, in order: JSON lines with "prompt" and, optionally, "task" and "reference".
// Empty lines are skipped.
//
// Errors    io; bad_file naming the line
Result<std::vector<Prompt>> read_prompts(const std::filesystem::path& file);

}  // namespace edgedraft::netsim
