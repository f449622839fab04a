#include "shared/drafting/gemma4_assistant/assistant_tap.h"

#include <algorithm>
#include <numeric>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kProductRows = 64;  // per call

}  // namespace

AssistantTap::AssistantTap(Backend& backend, const AssistantModel& model)
    : backend_(backend),
      groups_(model.scale_groups()),
      row_cols_(std::accumulate(groups_.begin(), groups_.end(), 0u)),
      feature_(model.sizes.target_layer_count + 1),
      store_(backend),
      fc_feature_(store_.add_matrix(model.fc_feature)),
      features_(backend, kProductRows, model.target_dim),
      products_(backend, kProductRows, model.dim()) {
  for (const AssistantMemory& memory : model.memories) {
    sources_.push_back({.layer = memory.layer,
                        .cols = memory.heads.kv_cols(),
                        .window = memory.window,
                        .sends_keys = !memory.key_norm.present()});
  }
}

void AssistantTap::read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
                        std::span<float> rows) {
  EDGEDRAFT_CHECK(rows.size() == std::size_t{count} * row_cols_);
  std::ranges::fill(rows, 0.0f);
  const std::uint32_t end = first + count;
  const std::uint32_t length = cache.length();
  // Rows from `begin` on.
  const auto rows_from = [&](std::uint32_t begin) {
    return rows.subspan(std::size_t{begin - first} * row_cols_);
  };
  std::uint32_t col = 0;
  for (const Source& source : sources_) {
    // Pages before the window may hold another session's rows.
    const std::uint32_t visible =
        source.window == 0 ? 0 : length - std::min(length, source.window - 1);
    const std::uint32_t begin = std::clamp(visible, first, end);
    if (source.sends_keys) {
      read_slots(cache.keys()[source.layer], begin, end, col, rows_from(begin));
      col += source.cols;
    }
    read_slots(cache.values()[source.layer], begin, end, col, rows_from(begin));
    col += source.cols;
  }
  // Drafts start at the newest position, or at one that a rewind of this length may reach.
  const std::uint32_t begin = std::clamp(length - std::min(length, kMaskRowsMax), first, end);
  read_products(cache.states(feature_), begin, end, col, rows_from(begin));
}

void AssistantTap::read_slots(const CacheView& from, std::uint32_t first, std::uint32_t end,
                              std::uint32_t col, std::span<float> rows) {
  while (first < end) {
    const CacheRows run = from.run(first, end - first);
    block_.resize(std::size_t{run.rows} * run.cols);
    backend_.read_cache(run, block_);
    copy_rows(run.cols, col, rows);
    first += run.rows;
    rows = rows.subspan(std::size_t{run.rows} * row_cols_);
  }
}

void AssistantTap::read_products(const CacheView& features, std::uint32_t first, std::uint32_t end,
                                 std::uint32_t col, std::span<float> rows) {
  while (first < end) {
    const CacheRows run = features.run(first, std::min(end - first, kProductRows));
    block_.resize(std::size_t{run.rows} * run.cols);
    backend_.read_cache(run, block_);
    const Matrix x = features_.rows(run.rows);
    const Matrix y = products_.rows(run.rows);
    backend_.write(x, block_);
    backend_.matmul({.x = x, .weight = fc_feature_, .bias = {}, .y = y});
    block_.resize(std::size_t{y.rows} * y.cols);
    backend_.read(y, block_);
    copy_rows(y.cols, col, rows);
    first += run.rows;
    rows = rows.subspan(std::size_t{run.rows} * row_cols_);
  }
}

// The packed rows of block_ become columns of the first rows.
void AssistantTap::copy_rows(std::uint32_t cols, std::uint32_t col, std::span<float> rows) {
  const std::size_t count = block_.size() / cols;
  for (std::size_t r = 0; r < count; ++r) {
    std::copy_n(&block_[r * cols], cols, &rows[r * row_cols_ + col]);
  }
}

}  // namespace edgedraft
