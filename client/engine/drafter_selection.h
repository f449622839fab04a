#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/control/run_control.h"
#include "client/engine/bundle_file.h"
#include "client/engine/run_memory.h"
#include "shared/base/error.h"

namespace edgedraft::client {

// Drafters to choose from: bundle files, and kinds by name.
struct DrafterWishes {
  std::vector<std::filesystem::path> bundles;  // the user's favourite first
  std::string kind;                            // empty: the bundle's own
  std::vector<std::string> merge;  // kinds without weights that add to the drafter's trees
  bool merges_if_faster = false;   // merges kinds that support it if that is faster
  std::vector<std::filesystem::path> indexes{};  // for kinds that draft from indexes
};

// Answers that the drafter is chosen for.
struct AnswersExpected {
  std::string server;  // its name in RunMemory
  std::uint32_t breadth = 1;
  std::uint32_t tokens = 1;  // upper bound per answer
  bool on_battery = false;
};

struct SelectedDrafter {
  BundleFile bundle;
  RunMemory::Key memory_key;  // for storing measurements
  std::string why;            // empty: there was only one
};

// Opens the bundles and selects the one with the fastest answers so far (choose_drafter). Without a
// memory that is the first bundle, with only `merge` added.
//
// Errors    those of BundleFile; mismatch: the bundles were made for different targets
// Requires  wishes.bundles not empty; BundleUse::draft for more than one bundle
Result<SelectedDrafter> select_drafter(const DrafterWishes& wishes, BundleUse use,
                                       const RunMemory* memory, const AnswersExpected& answers);

// A drafter that a conversation could use, and measurements of its answers.
struct KnownDrafter {
  std::string name;
  std::optional<RunKnowledge> known;
};

struct DrafterChoice {
  std::size_t index = 0;
  std::string why;
};

// Returns the drafter with the fastest forecast (RunControl::fastest()) for answers of about
// `tokens` tokens and trees up to `breadth`. Drafters without enough measurements are tried first.
// Among drafters within 3 % of the fastest, the first wins.
//
// Requires  drafters not empty
DrafterChoice choose_drafter(std::span<const KnownDrafter> drafters, std::uint32_t breadth,
                             std::uint32_t tokens, bool on_battery);

}  // namespace edgedraft::client
