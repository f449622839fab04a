#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "netsim/report/statistics.h"
#include "tests/bench/trace.h"

namespace edgedraft::bench {

// An observer who has seen answers to known prompts, and guesses the prompts of others from sizes,
// gaps and counts alone. From a trace it takes how many packets and bytes went each way, over what
// time, how sizes and gaps are distributed, and the first ones in their order.
//
// It knows each feature's mean for each prompt and its spread within prompts, and takes the prompt
// that is nearest (a Gaussian classifier with a diagonal covariance that all classes share).
class Fingerprinter {
 public:
  explicit Fingerprinter(std::span<const Trace> known);
  // The likeliest prompt.
  std::size_t guess(const Trace& trace) const;

 private:
  std::vector<std::size_t> prompts_;        // by class
  std::vector<std::vector<double>> means_;  // of each class
  std::vector<double> spread_;              // within classes, by feature
};

// The share of the traces whose prompts it guesses. Its interval is one over prompts: answers to a
// prompt resemble each other, so many of them say little more than one.
netsim::Estimate right_share(const Fingerprinter& fingerprinter, std::span<const Trace> traces);

}  // namespace edgedraft::bench
