#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft::bench {

struct Prompt {
  std::string task;
  std::string text;
  std::string reference;
};

// Held-out prompts: JSON lines with "task", "prompt" and "reference".
// Errors    io; bad_file naming the line
Result<std::vector<Prompt>> read_prompts(const std::filesystem::path& path);

// A mean over prompts with its 95 % interval, by resampling the prompts (a seeded bootstrap).
struct Mean {
  double value = 0.0;
  double low = 0.0;
  double high = 0.0;
};
// Of the ratio sum(numerators) / sum(denominators). Requires equal, positive counts.
Mean bootstrap_ratio(const std::vector<double>& numerators,
                     const std::vector<double>& denominators);

struct Ratio {
  const std::vector<double>& numerators;
  const std::vector<double>& denominators;
};
// The difference between two such ratios over the same prompts, which are resampled together.
Mean bootstrap_difference(const Ratio& minuend, const Ratio& subtrahend);

}  // namespace edgedraft::bench
