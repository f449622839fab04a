#include "client/control/drafter_choice.h"

#include <cmath>

#include "shared/base/check.h"

namespace edgedraft::client {

DrafterChoice choose_drafter(std::span<const KnownDrafter> drafters, std::uint32_t breadth,
                             std::uint32_t tokens, bool on_battery) {
  EDGEDRAFT_CHECK(!drafters.empty());
  for (std::size_t i = 0; i < drafters.size(); ++i) {
    const auto& known = drafters[i].known;
    if (!known || !RunControl(*known).knows_enough()) {
      return {.index = i, .why = drafters[i].name + " has not been measured yet"};
    }
  }
  DrafterChoice choice{.index = 0, .why = "tokens/s"};
  double best = 0.0;
  for (std::size_t i = 0; i < drafters.size(); ++i) {
    const double predicted =
        RunControl(*drafters[i].known).fastest(breadth, tokens, on_battery).tokens_per_second;
    choice.why +=
        (i == 0 ? ": " : ", ") + drafters[i].name + " " + std::to_string(std::lround(predicted));
    if (RunControl::kAsFast * predicted > best) {
      choice.index = i;
      best = predicted;
    }
  }
  return choice;
}

}  // namespace edgedraft::client
