#include "shared/drafting/moa/moa_tap.h"

#include <algorithm>
#include <numeric>

#include "shared/base/check.h"

namespace edgedraft {

MoaTap::MoaTap(Backend& backend, const MoaConfig& config, const MoaTensors& tensors)
    : backend_(backend),
      layout_(moa_row_layout(config)),
      target_kv_cols_(config.target_layer.heads.kv_cols()),
      lsa_(backend, config, tensors),
      projection_(backend, config, tensors, lsa_.rows_max()),
      mean_(backend, lsa_.rows_max(), 2 * target_kv_cols_),
      keys_(backend, lsa_.rows_max(), config.cross_attention.heads.kv_cols()),
      values_(backend, lsa_.rows_max(), config.cross_attention.heads.kv_cols()) {}

void MoaTap::read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
                  std::span<float> rows) {
  const std::size_t cols = layout_.cols();
  EDGEDRAFT_CHECK(rows.size() == count * cols);
  for (std::uint32_t done = 0; done < count; done += lsa_.rows_max()) {
    const std::uint32_t chunk = std::min(lsa_.rows_max(), count - done);
    const auto chunk_rows = rows.subspan(done * cols, chunk * cols);
    read_memory(cache, first + done, chunk, chunk_rows);
    const std::size_t layer_first = cache.keys().size() - layout_.tli;
    for (std::uint32_t layer = 0; layer < layout_.tli; ++layer) {
      const std::uint32_t col = layout_.tli_first_col(layer);
      read_slots(cache.keys()[layer_first + layer], first + done, col, chunk_rows);
      read_slots(cache.values()[layer_first + layer], first + done, col + target_kv_cols_,
                 chunk_rows);
    }
  }
}

void MoaTap::read_memory(const KvCache& cache, std::uint32_t first, std::uint32_t count,
                         std::span<float> rows) {
  std::vector<std::uint32_t> slots(count);
  std::iota(slots.begin(), slots.end(), first);
  const Matrix mean = mean_.rows(count);
  lsa_.mean(cache, slots, mean);
  if (layout_.cut == CutPoint::lsa_mean) {
    read_block(mean, 0, rows);
    return;
  }
  const Matrix keys = keys_.rows(count);
  const Matrix values = values_.rows(count);
  projection_.project(mean, keys, values);
  read_block(keys, 0, rows);
  read_block(values, keys.cols, rows);
}

void MoaTap::read_slots(const CacheView& from, std::uint32_t first, std::uint32_t col,
                        std::span<float> rows) {
  while (!rows.empty()) {
    const auto left = static_cast<std::uint32_t>(rows.size() / layout_.cols());
    const CacheRows run = from.run(first, left);
    read_block(run, col, rows);
    first += run.rows;
    rows = rows.subspan(std::size_t{run.rows} * layout_.cols());
  }
}

void MoaTap::read_block(const CacheRows& from, std::uint32_t col, std::span<float> rows) {
  block_.resize(std::size_t{from.rows} * from.cols);
  backend_.read_cache(from, block_);
  for (std::uint32_t r = 0; r < from.rows; ++r) {
    std::copy_n(&block_[std::size_t{r} * from.cols], from.cols,
                &rows[std::size_t{r} * layout_.cols() + col]);
  }
}

}  // namespace edgedraft
