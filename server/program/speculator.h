#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "server/program/model_host.h"
#include "server/proposers/speculation.h"
#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"

// What --speculate names.
namespace edgedraft {

// A drafter that works beside the target.
struct SpeculatingDrafter {
  std::string name;
  const DrafterModel* model;
  Tap* tap;  // null if it needs none
  bool joins_hints = false;
  std::unique_ptr<DrafterModel> own{};  // unless it is a bundle's
};

// A bundle's, `auto`, or one without weights.
// Errors    usage naming those that there are
Result<SpeculatingDrafter> speculating_drafter(ModelHost& host, const std::string& name);

// Whether a server whose --speculate is `name` may draft from these.
// Errors    usage: nothing looks them up, or one was not declared public, and how fast answers come
//           tells users what is in it; those of CorpusIndex::open
Result<void> check_indexes(std::span<const std::filesystem::path> indexes, const std::string& name);

// METHOD or METHOD+KIND; nothing if the name is no method's.
// Errors    usage  KIND is no drafter without weights
Result<std::optional<ProposerSource>> probing_source_of(const std::string& name, ModelHost& host,
                                                        Backend& backend);

}  // namespace edgedraft
