#include "shared/drafting/multistream/multistream_drafter.h"

#include <algorithm>
#include <numeric>

#include "shared/base/check.h"

namespace edgedraft {

MultistreamTap::MultistreamTap(Backend& backend, const MultistreamConfig& config)
    : backend_(backend),
      layer_count_(config.layer_count),
      state_(config.first_state()),
      groups_(multistream_groups(config)) {}

void MultistreamTap::read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
                          std::span<float> rows) {
  const std::size_t cols = std::accumulate(groups_.begin(), groups_.end(), std::size_t{0});
  EDGEDRAFT_CHECK(rows.size() == count * cols);
  std::size_t col = 0;
  const auto read_view = [&](const CacheView& view) {
    std::uint32_t width = 0;
    for (std::uint32_t done = 0; done < count;) {
      const CacheRows run = view.run(first + done, count - done);
      width = run.cols;
      block_.resize(std::size_t{run.rows} * width);
      backend_.read_cache(run, block_);
      for (std::size_t r = 0; r < run.rows; ++r) {
        std::copy_n(&block_[r * width], width, &rows[(done + r) * cols + col]);
      }
      done += run.rows;
    }
    col += width;
  };
  read_view(cache.states(state_));
  const std::size_t first_layer = cache.keys().size() - layer_count_;
  for (std::size_t i = first_layer; i < cache.keys().size(); ++i) {
    read_view(cache.keys()[i]);
    read_view(cache.values()[i]);
  }
}

}  // namespace edgedraft
