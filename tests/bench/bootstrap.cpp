#include "tests/bench/bootstrap.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "shared/base/check.h"
#include "shared/base/random.h"

namespace edgedraft::bench {
namespace {

// `value_of` takes a function that maps the index of a prompt to that of the one in its place.
template <class ValueOf>
netsim::Estimate bootstrap(std::size_t prompt_count, const ValueOf& value_of) {
  netsim::Estimate estimate{.value = value_of([](std::size_t i) { return i; }),
                            .pairs = prompt_count};
  estimate.low = estimate.high = estimate.value;
  if (prompt_count < netsim::kGroupsMin) return estimate;
  Random random(1);
  std::vector<double> values(netsim::kResamples);
  std::vector<std::size_t> drawn(prompt_count);
  for (double& value : values) {
    for (std::size_t& index : drawn) index = random.below(prompt_count);
    value = value_of([&](std::size_t i) { return drawn[i]; });
  }
  std::sort(values.begin(), values.end());
  const std::size_t beyond = values.size() / 40;
  estimate.low = values[beyond];
  estimate.high = values[values.size() - beyond - 1];
  estimate.known = true;
  return estimate;
}

template <class IndexOf>
double ratio_of(const Ratio& ratio, const IndexOf& index_of) {
  double up = 0.0;
  double down = 0.0;
  for (std::size_t i = 0; i < ratio.numerators.size(); ++i) {
    up += ratio.numerators[index_of(i)];
    down += ratio.denominators[index_of(i)];
  }
  return down > 0.0 ? up / down : 0.0;
}

}  // namespace

netsim::Estimate bootstrap_ratio(const std::vector<double>& numerators,
                                 const std::vector<double>& denominators) {
  return bootstrap(numerators.size(), [&](const auto& index_of) {
    return ratio_of({numerators, denominators}, index_of);
  });
}

netsim::Estimate bootstrap_difference(const Ratio& minuend, const Ratio& subtrahend) {
  EDGEDRAFT_CHECK(minuend.numerators.size() == subtrahend.numerators.size());
  return bootstrap(minuend.numerators.size(), [&](const auto& index_of) {
    return ratio_of(minuend, index_of) - ratio_of(subtrahend, index_of);
  });
}

std::string interval_text(const netsim::Estimate& estimate, bool with_signs) {
  if (!estimate.known) return "[too few prompts]";
  char text[64];
  if (with_signs) {
    std::snprintf(text, sizeof text, "[%+.2f, %+.2f]", estimate.low, estimate.high);
  } else {
    std::snprintf(text, sizeof text, "[%.2f, %.2f]", estimate.low, estimate.high);
  }
  return text;
}

nlohmann::ordered_json estimate_json(const char* name, const netsim::Estimate& estimate) {
  nlohmann::ordered_json json{{name, estimate.value}, {"low", nullptr}, {"high", nullptr}};
  if (!estimate.known) return json;
  json["low"] = estimate.low;
  json["high"] = estimate.high;
  return json;
}

}  // namespace edgedraft::bench
