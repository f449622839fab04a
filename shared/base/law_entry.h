#pragma once

#include <cstdint>
#include <vector>

namespace edgedraft {

// A token of a drafter's law, in whole numbers: its probability is its weight's part of all.
struct LawEntry {
  std::uint32_t token;
  std::uint16_t weight;  // above 0

  bool operator==(const LawEntry&) const = default;
};

// A law that is sent has each token once, and this weight at its likeliest.
inline constexpr std::uint16_t kLawWeightMax = 65535;
using LawEntries = std::vector<LawEntry>;

}  // namespace edgedraft
