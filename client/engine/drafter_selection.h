#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "client/engine/bundle_file.h"
#include "client/engine/run_memory.h"
#include "shared/base/error.h"

namespace edgedraft {

// Which drafters may be had, by their files and their names in the table of kinds.
struct DrafterWishes {
  std::vector<std::filesystem::path> bundles;  // the user's favourite first
  std::string kind;                            // empty: a bundle's own
  std::vector<std::string> merge;  // kinds without weights whose proposals join the drafter's trees
  bool merges_if_faster = false;   // those of kinds that join others join them if that helps
  std::vector<std::filesystem::path> indexes{};  // for kinds that draft from some
};

// What the drafter is for.
struct AnswersExpected {
  std::string server;  // as the memory knows it
  std::uint32_t breadth = 1;
  std::uint32_t tokens = 1;  // an answer, at most
  bool on_battery = false;
};

struct SelectedDrafter {
  BundleFile bundle;
  RunMemory::Key memory_key;  // of what it teaches
  std::string why;            // empty: there was no choice
};

// Opens the bundles and takes what answers came fastest with (choose_drafter). Without a memory
// that is the first bundle, with nothing but `merge`.
//
// Errors    those of BundleFile; mismatch: the bundles were made for different targets
// Requires  wishes.bundles not empty; BundleUse::draft for more than one of them
Result<SelectedDrafter> select_drafter(const DrafterWishes& wishes, BundleUse use,
                                       const RunMemory* memory, const AnswersExpected& answers);

}  // namespace edgedraft
