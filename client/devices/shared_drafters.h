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

namespace edgedraft {

// A drafter's weights and the backend that they are on, which outlives them.
struct LoadedDrafter {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<DrafterWeights> weights;
};

// One drafter for many conversations: its weights are loaded once on a device, and once on a second
// one if the first fails. Conversations that drafted on the first go over one by one, as they see
// it fail.
//
// Threads   one at a time makes drafters or calls them
class SharedDrafters {
 public:
  // Throws DeviceError if the device cannot hold the drafter.
  using Loader = std::function<LoadedDrafter()>;

  struct Options {
    Loader first;
    Loader second{};                                           // empty: there is none
    std::function<void(const std::string& why)> on_failure{};  // of the first; told once
    // Tokens of a conversation that the drafters can hold.
    std::uint32_t positions_max = std::numeric_limits<std::uint32_t>::max();
  };
  // Loads the weights. Throws DeviceError if no device can hold them.
  explicit SharedDrafters(Options options);
  SharedDrafters(const SharedDrafters&) = delete;
  SharedDrafters& operator=(const SharedDrafters&) = delete;

  // A drafter that has seen no token; this object outlives it. Throws DeviceError if no device has
  // memory for it.
  std::unique_ptr<Drafter> make_drafter();

 private:
  std::unique_ptr<Drafter> make_on_second();
  void note_failure(const std::string& why);

  Options options_;
  bool failed_ = false;  // the first device
  std::optional<LoadedDrafter> first_;
  std::optional<LoadedDrafter> second_;
};

}  // namespace edgedraft
