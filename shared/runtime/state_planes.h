#pragma once

#include <cstdint>
#include <vector>

namespace edgedraft {

// Hidden states of a decoder that its caches keep per position, beside keys and values.
//
// State i is the residual stream after i layers: state 0 is the embedding, state layer_count the
// output of the last layer. State layer_count + 1 is the output of the final norm, the features
// that the head multiplies (EAGLE's).
struct StatePlanes {
  std::vector<std::uint32_t> states;  // increasing, each at most layer_count + 1
  std::uint32_t cols = 0;             // per state: the decoder's dim

  std::uint32_t count() const { return static_cast<std::uint32_t>(states.size()); }
  bool operator==(const StatePlanes&) const = default;
};

}  // namespace edgedraft
