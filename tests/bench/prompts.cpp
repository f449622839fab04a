#include "tests/bench/prompts.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "shared/base/check.h"
#include "shared/base/random.h"

namespace edgedraft::bench {

Result<std::vector<Prompt>> read_prompts(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) return Error{Errc::io, path.string() + ": cannot be read"};
  std::vector<Prompt> prompts;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("task") || !json.contains("prompt")) {
      return Error{Errc::bad_file, path.string() + ", line " + std::to_string(number) +
                                       ": no object with \"task\" and \"prompt\""};
    }
    prompts.push_back({.task = json["task"].get<std::string>(),
                       .text = json["prompt"].get<std::string>(),
                       .reference = json.value("reference", "")});
  }
  if (prompts.empty()) return Error{Errc::bad_file, path.string() + ": holds no prompt"};
  return prompts;
}

namespace {

// `value_of` takes a function that maps the index of a prompt to that of the one in its place.
template <class ValueOf>
Mean bootstrap(std::size_t prompt_count, const ValueOf& value_of) {
  constexpr std::size_t kResamples = 2000;
  Random random(1);
  std::vector<double> values(kResamples);
  std::vector<std::size_t> drawn(prompt_count);
  for (double& value : values) {
    for (std::size_t& index : drawn) index = random.below(prompt_count);
    value = value_of([&](std::size_t i) { return drawn[i]; });
  }
  std::sort(values.begin(), values.end());
  return {.value = value_of([](std::size_t i) { return i; }),
          .low = values[kResamples / 40],
          .high = values[kResamples - kResamples / 40 - 1]};
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

Mean bootstrap_ratio(const std::vector<double>& numerators,
                     const std::vector<double>& denominators) {
  return bootstrap(numerators.size(), [&](const auto& index_of) {
    return ratio_of({numerators, denominators}, index_of);
  });
}

Mean bootstrap_difference(const Ratio& minuend, const Ratio& subtrahend) {
  EDGEDRAFT_CHECK(minuend.numerators.size() == subtrahend.numerators.size());
  return bootstrap(minuend.numerators.size(), [&](const auto& index_of) {
    return ratio_of(minuend, index_of) - ratio_of(subtrahend, index_of);
  });
}

}  // namespace edgedraft::bench
