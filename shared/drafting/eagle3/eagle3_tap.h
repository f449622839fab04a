#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/drafting/eagle3/eagle3_model.h"
#include "shared/drafting/state_tap.h"
#include "shared/drafting/tap.h"
#include "shared/runtime/layer.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// The server's half of an EAGLE-3 drafter: a row is fc [states], the states normed first if the
// drafter has the norm.
class Eagle3Tap final : public Tap {
 public:
  // Requires  the bytes of the tensors outlive the tap
  Eagle3Tap(Backend& backend, const Eagle3Projection& projection);

  std::span<const std::uint32_t> states() const override { return states_.states(); }
  std::span<const std::uint32_t> scale_groups() const override { return std::span(&dim_, 1); }
  void read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
            std::span<float> rows) override;

 private:
  static constexpr std::uint32_t kRowsMax = 64;  // positions per call of operations

  Backend& backend_;
  StateTap states_;
  std::uint32_t dim_;
  float rms_epsilon_;
  WeightStore store_;
  Weight fc_;
  Weight fc_norm_;
  OwnedMatrix read_;  // [kRowsMax, states * target_dim]
  OwnedMatrix projected_;
  std::vector<float> block_;
};

}  // namespace edgedraft
