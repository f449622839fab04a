#include "client/generation/lasting_outage.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace edgedraft {
namespace {

constexpr std::size_t kRepeated = 4;

}  // namespace

void avoid_circles(std::span<const std::uint32_t> answer, std::span<float> logits) {
  constexpr std::size_t kBefore = kRepeated - 1;
  if (answer.size() < kBefore) return;
  const auto last = answer.last(kBefore);
  std::vector<std::uint32_t> said;
  for (std::size_t i = kBefore; i < answer.size(); ++i) {
    if (std::ranges::equal(answer.subspan(i - kBefore, kBefore), last)) said.push_back(answer[i]);
  }
  std::ranges::sort(said);
  const auto is_left = [&](std::size_t token) {
    return std::isfinite(logits[token]) && !std::ranges::binary_search(said, token);
  };
  std::size_t left = 0;
  while (left < logits.size() && !is_left(left)) ++left;
  if (left == logits.size()) return;
  for (const std::uint32_t token : said) logits[token] = -std::numeric_limits<float>::infinity();
}

}  // namespace edgedraft
