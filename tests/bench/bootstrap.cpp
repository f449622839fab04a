#include "tests/bench/bootstrap.h"

#include <cstddef>
#include <cstdio>

#include "shared/base/check.h"

namespace edgedraft::bench {

std::vector<netsim::RatioPart> parts_of(const Ratio& ratio) {
  EDGEDRAFT_CHECK(ratio.numerators.size() == ratio.denominators.size());
  std::vector<netsim::RatioPart> parts;
  for (std::size_t i = 0; i < ratio.numerators.size(); ++i) {
    parts.push_back({ratio.numerators[i], ratio.denominators[i]});
  }
  return parts;
}

netsim::Estimate bootstrap_ratio(const Ratio& ratio) {
  return netsim::mean_ratio_of({{.ours = parts_of(ratio)}});
}

netsim::Estimate bootstrap_difference(const Ratio& minuend, const Ratio& subtrahend) {
  return netsim::mean_ratio_of({{.ours = parts_of(minuend), .theirs = parts_of(subtrahend)}});
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
