#pragma once

#include <array>
#include <cstdint>

namespace edgedraft {

// How often hints of a score turn out to be what the target chooses, as a session's passes have
// shown. Drafters underrate their paths, each in its own way, and a peer may say anything: rows are
// given by what was seen of its scores.
class HintCalibration {
 public:
  // Of a hint whose path has this score, in parts of a nat below certainty (score.h).
  double probability(std::uint32_t score) const;
  // A hint of that score took part in a pass.
  void observe(std::uint32_t score, bool accepted);

 private:
  // Two parts a bin; the last one has all that is less likely.
  static constexpr std::uint32_t kScoresPerBin = 2;
  static constexpr std::uint32_t kBins = 24;

  struct Bin {
    double accepted = 0.0;
    double count = 0.0;
  };
  static std::uint32_t bin_of(std::uint32_t score);

  std::array<Bin, kBins> bins_{};
};

}  // namespace edgedraft
