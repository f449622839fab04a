#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "netsim/report/statistics.h"
#include "tests/bench/trace.h"

namespace edgedraft::bench {

// Simulates an observer of known prompts' answers that guesses other answers' prompts from sizes,
// gaps and counts alone. Features of a trace: packets and bytes per direction, duration,
// distributions of sizes and gaps, and the first ones in order.
//
// It estimates each feature's mean per prompt and its spread within prompts, and picks the nearest
// prompt (a Gaussian classifier with a diagonal covariance shared by all classes).
class Fingerprinter {
 public:
  explicit Fingerprinter(std::span<const Trace> known);
  // Returns the likeliest prompt.
  std::size_t guess(const Trace& trace) const;

 private:
  std::vector<std::size_t> prompts_;        // by class
  std::vector<std::vector<double>> means_;  // per class
  std::vector<double> spread_;              // within classes, per feature
};

// The share of traces whose prompt is guessed. The interval is over prompts, because answers to one
// prompt are correlated.
netsim::Estimate right_share(const Fingerprinter& fingerprinter, std::span<const Trace> traces);

}  // namespace edgedraft::bench
