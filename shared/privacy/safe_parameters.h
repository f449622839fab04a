#pragma once

#include <utility>

#include "shared/base/constraints.h"
#include "shared/base/sampling_params.h"

namespace edgedraft {

// What a request says beside its tokens. Numbers that a user sets tell nothing of the text.
// Constraints hold text of the user's own (stops, a grammar's literals), which client/privacy masks
// like all others; where private text is to stay, no request is made at all.
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
