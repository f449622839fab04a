#pragma once

#include <utility>

#include "shared/types/constraints.h"
#include "shared/types/sampling_params.h"

namespace edgedraft {

// Parameters of a request. Numbers set by a user reveal nothing about the text. Constraints contain
// the user's own text (stops, a grammar's literals), which client/privacy masks like any other.
// If private text must stay on the device, no request is made.
class SafeParameters {
 public:
  SafeParameters() = default;
  explicit SafeParameters(const SamplingParams& sampling, Constraints constraints = {})
      : sampling_(sampling), constraints_(std::move(constraints)) {}

  const SamplingParams& sampling() const { return sampling_; }
  const Constraints& constraints() const { return constraints_; }

 private:
  SamplingParams sampling_;
  Constraints constraints_;
};

}  // namespace edgedraft
