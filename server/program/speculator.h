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

// Resolves --speculate.
namespace edgedraft::server {

// A drafter that runs next to the target.
struct SpeculatingDrafter {
  std::string name;
  const DrafterModel* model;
  Tap* tap;  // null if it needs none
  bool joins_hints = false;
  std::unique_ptr<DrafterModel> own{};  // set unless it is a bundle's
};

// Resolves a bundle, `auto`, or a drafter without weights.
// Errors    usage, naming the choices
Result<SpeculatingDrafter> speculating_drafter(ModelHost& host, const std::string& name);

// Checks whether --speculate `name` may draft from these indexes.
// Errors    usage: no drafter reads them, or one was not declared public, since response times
//           reveal its contents to users; those of CorpusIndex::open
Result<void> check_indexes(std::span<const std::filesystem::path> indexes, const std::string& name);

// Parses METHOD or METHOD+KIND; empty if the name is not that of a method.
// Errors    usage  KIND does not name a drafter without weights
Result<std::optional<ProposerSource>> probing_source_of(const std::string& name, ModelHost& host,
                                                        Backend& backend);

}  // namespace edgedraft::server
