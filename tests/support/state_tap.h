#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "shared/drafting/tap.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/kv_cache.h"

namespace edgedraft::testing {

// The rows of a state that a cache keeps, of positions first.. .
inline std::vector<float> states_of(Backend& backend, const KvCache& cache, std::uint32_t state,
                                    std::uint32_t first, std::uint32_t count) {
  std::vector<float> values;
  while (count > 0) {
    const CacheRows run = cache.states(state).run(first, count);
    std::vector<float> some(std::size_t{run.rows} * run.cols);
    backend.read_cache(run, some);
    values.insert(values.end(), some.begin(), some.end());
    first += run.rows;
    count -= run.rows;
  }
  return values;
}

// Sends hidden states of the target as they are: a row is one state behind the other.
class StateTap final : public Tap {
 public:
  StateTap(Backend& backend, std::vector<std::uint32_t> states, std::uint32_t dim)
      : backend_(backend), states_(std::move(states)), dim_(dim), groups_(states_.size(), dim) {}

  std::span<const std::uint32_t> states() const override { return states_; }
  std::span<const std::uint32_t> scale_groups() const override { return groups_; }
  void read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
            std::span<float> rows) override {
    const std::size_t cols = states_.size() * dim_;
    for (std::size_t plane = 0; plane < states_.size(); ++plane) {
      const auto values = states_of(backend_, cache, states_[plane], first, count);
      for (std::size_t r = 0; r < count; ++r) {
        std::copy_n(&values[r * dim_], dim_, &rows[r * cols + plane * dim_]);
      }
    }
  }

 private:
  Backend& backend_;
  std::vector<std::uint32_t> states_;
  std::uint32_t dim_;
  std::vector<std::uint32_t> groups_;
};

}  // namespace edgedraft::testing
