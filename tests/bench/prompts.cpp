#include "tests/bench/prompts.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

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

Mean bootstrap_ratio(const std::vector<double>& numerators,
                     const std::vector<double>& denominators) {
  constexpr std::size_t kResamples = 2000;
  const auto ratio_of = [&](auto&& index_of) {
    double up = 0.0;
    double down = 0.0;
    for (std::size_t i = 0; i < numerators.size(); ++i) {
      const std::size_t index = index_of(i);
      up += numerators[index];
      down += denominators[index];
    }
    return down > 0.0 ? up / down : 0.0;
  };
  Random random(1);
  std::vector<double> ratios(kResamples);
  for (double& ratio : ratios) {
    ratio = ratio_of([&](std::size_t) { return random.below(numerators.size()); });
  }
  std::sort(ratios.begin(), ratios.end());
  return {.value = ratio_of([](std::size_t i) { return i; }),
          .low = ratios[kResamples / 40],
          .high = ratios[kResamples - kResamples / 40 - 1]};
}

}  // namespace edgedraft::bench
