#pragma once

#include "shared/base/sampling_params.h"

namespace edgedraft {

// What a request says beside its tokens. Numbers that a user sets tell nothing of the text. What
// has text in it (stop strings, schemas, tools) may enter only with its provenance, as tokens do;
// the protocol carries none yet.
class SafeParameters {
 public:
  SafeParameters() = default;
  explicit SafeParameters(const SamplingParams& sampling) : sampling_(sampling) {}

  const SamplingParams& sampling() const { return sampling_; }

 private:
  SamplingParams sampling_;
};

}  // namespace edgedraft
