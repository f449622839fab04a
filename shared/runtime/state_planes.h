#pragma once

#include <cstdint>
#include <vector>

namespace edgedraft {

// The hidden states of a decoder that its caches keep for every position, beside keys and values.
//
// State i of a position is the residual stream behind i layers: state 0 is the embedding, state
// layer_count what the last layer leaves. State layer_count + 1 is that behind the final norm, the
// features that the head multiplies (EAGLE's).
struct StatePlanes {
  std::vector<std::uint32_t> states;  // increasing, each at most layer_count + 1
  std::uint32_t cols = 0;             // of a state: the decoder's dim

  std::uint32_t count() const { return static_cast<std::uint32_t>(states.size()); }
  bool operator==(const StatePlanes&) const = default;
};

}  // namespace edgedraft
