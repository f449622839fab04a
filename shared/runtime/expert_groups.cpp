#include "shared/runtime/expert_groups.h"

#include <algorithm>
#include <numeric>

#include "shared/base/check.h"

namespace edgedraft {

void ExpertGroups::group(const Matrix& experts, const float* choices, std::uint32_t expert_count) {
  const auto each_pair = [&](const auto& visit) {
    for (std::uint32_t r = 0; r < experts.rows; ++r) {
      for (std::uint32_t u = 0; u < experts.cols; ++u) {
        const float choice = choices[r * experts.stride + u];
        EDGEDRAFT_CHECK(choice >= 0.0f && choice < static_cast<float>(expert_count));
        visit(r * experts.cols + u, static_cast<std::uint32_t>(choice));
      }
    }
  };
  ends_.assign(expert_count, 0);
  each_pair([&](std::uint32_t, std::uint32_t expert) { ++ends_[expert]; });
  std::exclusive_scan(ends_.begin(), ends_.end(), ends_.begin(), std::uint32_t{0});
  pairs_.resize(std::size_t{experts.rows} * experts.cols);
  each_pair([&](std::uint32_t pair, std::uint32_t expert) { pairs_[ends_[expert]++] = pair; });

  blocks_.clear();
  blocks_.reserve(pairs_.size());
  any_shared_ = false;
  std::uint32_t first = 0;
  for (std::uint32_t expert = 0; expert < expert_count; ++expert) {
    while (first < ends_[expert]) {
      const std::uint32_t count = std::min(ends_[expert] - first, kBlockPairsMax);
      blocks_.push_back({.expert = expert, .first = first, .count = count});
      any_shared_ = any_shared_ || count > 1;
      first += count;
    }
  }
}

}  // namespace edgedraft
