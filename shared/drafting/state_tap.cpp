#include "shared/drafting/state_tap.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {

StateTap::StateTap(Backend& backend, std::vector<std::uint32_t> states, std::uint32_t dim)
    : backend_(backend), states_(std::move(states)), dim_(dim), groups_(states_.size(), dim) {}

void StateTap::read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
                    std::span<float> rows) {
  const std::size_t cols = states_.size() * dim_;
  EDGEDRAFT_CHECK(rows.size() == count * cols);
  for (std::size_t plane = 0; plane < states_.size(); ++plane) {
    const CacheView& view = cache.states(states_[plane]);
    for (std::uint32_t done = 0; done < count;) {
      const CacheRows run = view.run(first + done, count - done);
      block_.resize(std::size_t{run.rows} * dim_);
      backend_.read_cache(run, block_);
      for (std::size_t r = 0; r < run.rows; ++r) {
        std::copy_n(&block_[r * dim_], dim_, &rows[(done + r) * cols + plane * dim_]);
      }
      done += run.rows;
    }
  }
}

}  // namespace edgedraft
