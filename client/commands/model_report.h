#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "client/commands/model_facts.h"
#include "client/commands/model_pairs.h"

namespace edgedraft::client {

// A file that is not a GGUF file, or a damaged one.
struct UnreadableModel {
  std::filesystem::path path;
  Error error;
};

struct ModelReport {
  std::vector<InspectedModel> models;
  std::vector<UnreadableModel> unreadable;
  std::vector<ModelPair> pairs;
  ModelUse use;
  bool has_cuda = false;  // of this build
  bool has_vulkan = false;
};

// Prints the readable files and the pairs that fit for people; to_json() returns one JSON object of
// everything.
void print(const ModelReport& report, std::ostream& out);
std::string to_json(const ModelReport& report);

// The command that turns a pair's drafter into a bundle, quoted for a shell.
std::string convert_command(const ModelPair& pair);

}  // namespace edgedraft::client
