#pragma once

#include "shared/drafting/moa/lsa.h"
#include "shared/drafting/moa/memory_projection.h"
#include "shared/drafting/moa/moa_row.h"
#include "shared/drafting/tap.h"

namespace edgedraft {

// The server's half of a Mixture-of-Attentions drafter. It computes layer self-attention over the
// target's cache, the projection if the cut point puts it here, and the last layers' keys and
// values.
class MoaTap final : public Tap {
 public:
  // Requires  the bytes of `tensors` outlive the tap
  MoaTap(Backend& backend, const MoaConfig& config, const MoaTensors& tensors);

  std::span<const std::uint32_t> scale_groups() const override { return layout_.scale_groups; }
  void read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
            std::span<float> rows) override;

 private:
  // At most lsa_.rows_max() positions. Copies column blocks of `rows`.
  void read_memory(const KvCache& cache, std::uint32_t first, std::uint32_t count,
                   std::span<float> rows);
  // Reads one slot per row, from `first` on.
  void read_slots(const CacheView& from, std::uint32_t first, std::uint32_t col,
                  std::span<float> rows);
  void read_block(const CacheRows& from, std::uint32_t col, std::span<float> rows);

  Backend& backend_;
  MoaRowLayout layout_;
  std::uint32_t target_kv_cols_;
  LayerSelfAttention lsa_;
  MemoryProjection projection_;
  OwnedMatrix mean_;
  OwnedMatrix keys_;
  OwnedMatrix values_;
  std::vector<float> block_;
};

}  // namespace edgedraft
