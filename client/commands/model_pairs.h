#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "client/commands/model_facts.h"

namespace edgedraft::client {

// How one file serves another as a drafter.
struct ModelPair {
  enum class State : std::uint8_t {
    ready,        // a bundle that was made for the target
    convertible,  // a model that can become a bundle for it
    mismatch,
  };
  std::filesystem::path target;
  std::filesystem::path drafter;
  State state;
  bool is_bundle;           // the drafter
  std::string reason = {};  // of a mismatch
};

// Compares all targets with all bundles, and with models that have fewer parameters.
// Requires  targets that are compared with bundles have fingerprints
std::vector<ModelPair> match_models(const std::vector<InspectedModel>& models);

}  // namespace edgedraft::client
