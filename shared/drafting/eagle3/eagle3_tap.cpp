#include "shared/drafting/eagle3/eagle3_tap.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {

Eagle3Tap::Eagle3Tap(Backend& backend, const Eagle3Projection& projection)
    : backend_(backend),
      states_(backend, projection.states, projection.target_dim),
      dim_(projection.fc.rows),
      rms_epsilon_(projection.rms_epsilon),
      store_(backend),
      fc_(store_.add_matrix(projection.fc)),
      fc_norm_(store_.add_vector(projection.fc_norm)),
      read_(backend, kRowsMax, projection.cols()),
      projected_(backend, kRowsMax, dim_) {}

void Eagle3Tap::read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
                     std::span<float> rows) {
  EDGEDRAFT_CHECK(rows.size() == std::size_t{count} * dim_);
  for (std::uint32_t done = 0; done < count; done += kRowsMax) {
    const std::uint32_t chunk = std::min(kRowsMax, count - done);
    const Matrix x = read_.rows(chunk);
    const Matrix y = projected_.rows(chunk);
    block_.resize(std::size_t{chunk} * x.cols);
    states_.read(cache, first + done, chunk, block_);
    backend_.write(x, block_);
    if (fc_norm_) {
      backend_.rms_norm({.x = x, .weight = fc_norm_, .y = x, .epsilon = rms_epsilon_});
    }
    backend_.matmul({.x = x, .weight = fc_, .bias = {}, .y = y});
    backend_.read(y, rows.subspan(std::size_t{done} * dim_, std::size_t{chunk} * dim_));
  }
}

}  // namespace edgedraft
