#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "shared/drafting/drafter.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/runtime/backend.h"

namespace edgedraft::client {

// A drafter's weights and their backend, which outlives them.
struct LoadedDrafter {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<DrafterWeights> weights;
};

// A drafter shared by many conversations. Its weights are loaded once on a device, and once on a
// second device if the first fails. Each conversation moves over when it sees the failure.
//
// Threads   one at a time makes drafters or calls them
class SharedDrafters {
 public:
  // Throws DeviceError if the device cannot hold the drafter.
  using Loader = std::function<LoadedDrafter()>;

  struct Options {
    Loader first;
    Loader second{};                                           // empty: none
    std::function<void(const std::string& why)> on_failure{};  // called once, for the first device
    // Tokens per conversation that the drafters can hold.
    std::uint32_t positions_max = std::numeric_limits<std::uint32_t>::max();
  };
  // Loads the weights. Throws DeviceError if no device can hold them.
  explicit SharedDrafters(Options options);
  SharedDrafters(const SharedDrafters&) = delete;
  SharedDrafters& operator=(const SharedDrafters&) = delete;

  // Returns a drafter without tokens. This object must outlive it. Throws DeviceError if no device
  // has memory for it.
  std::unique_ptr<Drafter> make_drafter();

 private:
  std::unique_ptr<Drafter> make_on_second();
  void note_failure(const std::string& why);

  Options options_;
  bool failed_ = false;  // the first device
  std::optional<LoadedDrafter> first_;
  std::optional<LoadedDrafter> second_;
};

}  // namespace edgedraft::client
