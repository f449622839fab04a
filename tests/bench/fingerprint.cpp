#include "tests/bench/fingerprint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace edgedraft::bench {
namespace {

// Sizes and gaps per direction that are separate features.
constexpr std::size_t kFirst = 40;
constexpr std::array<double, 5> kQuantiles{0.1, 0.25, 0.5, 0.75, 0.9};

void add_distribution(std::vector<double> values, std::vector<double>& features) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  features.push_back(sum);
  features.push_back(values.empty() ? 0.0 : sum / static_cast<double>(values.size()));
  std::ranges::sort(values);
  for (const double q : kQuantiles) {
    const auto at = static_cast<std::size_t>(q * static_cast<double>(values.size()));
    features.push_back(values.empty() ? 0.0 : values[std::min(at, values.size() - 1)]);
  }
}

std::vector<double> features_of(const Trace& trace) {
  std::vector<double> features;
  for (const bool up : {true, false}) {
    std::vector<double> sizes;
    std::vector<double> gaps;
    double before = 0.0;
    for (const Packet& packet : trace.packets) {
      if (packet.up != up) continue;
      sizes.push_back(packet.bytes);
      gaps.push_back(packet.seconds - before);
      before = packet.seconds;
    }
    features.push_back(static_cast<double>(sizes.size()));
    features.push_back(before);
    add_distribution(sizes, features);
    add_distribution(gaps, features);
    for (std::size_t i = 0; i < kFirst; ++i) {
      features.push_back(i < sizes.size() ? sizes[i] : 0.0);
      features.push_back(i < gaps.size() ? gaps[i] : 0.0);
    }
  }
  return features;
}

}  // namespace

Fingerprinter::Fingerprinter(std::span<const Trace> known) {
  std::map<std::size_t, std::vector<std::vector<double>>> by_prompt;
  for (const Trace& trace : known) by_prompt[trace.prompt].push_back(features_of(trace));
  double degrees = 0.0;
  for (const auto& [prompt, samples] : by_prompt) {
    std::vector<double> mean(samples[0].size());
    for (const auto& sample : samples) {
      for (std::size_t f = 0; f < mean.size(); ++f) {
        mean[f] += sample[f] / static_cast<double>(samples.size());
      }
    }
    spread_.resize(mean.size());
    for (const auto& sample : samples) {
      for (std::size_t f = 0; f < mean.size(); ++f) spread_[f] += std::pow(sample[f] - mean[f], 2);
    }
    degrees += static_cast<double>(samples.size() - 1);
    prompts_.push_back(prompt);
    means_.push_back(std::move(mean));
  }
  for (double& s : spread_) s = std::sqrt(s / std::max(degrees, 1.0));
}

std::size_t Fingerprinter::guess(const Trace& trace) const {
  const std::vector<double> features = features_of(trace);
  double nearest = std::numeric_limits<double>::infinity();
  std::size_t found = 0;
  for (std::size_t c = 0; c < means_.size(); ++c) {
    double distance = 0.0;
    for (std::size_t f = 0; f < features.size(); ++f) {
      // The floor keeps a feature with no spread within prompts from deciding alone.
      const double unit = std::max(spread_[f], 1e-9 + 1e-3 * std::abs(means_[c][f]));
      distance += std::min(std::pow((features[f] - means_[c][f]) / unit, 2), 25.0);
    }
    if (distance < nearest) {
      nearest = distance;
      found = c;
    }
  }
  return prompts_[found];
}

netsim::Estimate right_share(const Fingerprinter& fingerprinter, std::span<const Trace> traces) {
  std::map<std::size_t, netsim::RatioPart> by_prompt;
  for (const Trace& trace : traces) {
    netsim::RatioPart& part = by_prompt[trace.prompt];
    part.denominator += 1.0;
    if (fingerprinter.guess(trace) == trace.prompt) part.numerator += 1.0;
  }
  netsim::RatioTask task;
  for (const auto& [prompt, part] : by_prompt) task.ours.push_back(part);
  return netsim::mean_ratio_of({task});
}

}  // namespace edgedraft::bench
