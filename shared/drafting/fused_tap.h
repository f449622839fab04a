#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/state_tap.h"
#include "shared/drafting/tap.h"
#include "shared/model/decoder_tensors.h"
#include "shared/runtime/layer.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// Bounds the width of the states side by side; published drafters read three to six.
inline constexpr std::size_t kFusedStatesMax = 16;

// How hidden states of the target become one row: fc [state; state; ...], with norms if present.
struct StateFusion {
  std::vector<std::uint32_t> states;  // layers whose inputs are read, increasing
  std::uint32_t target_dim = 0;
  float rms_epsilon = 0.0f;
  TensorView fc;           // [row's columns, cols()]
  TensorView norm_before;  // [1, cols()], over the states side by side; or absent
  TensorView norm_after;   // [1, row's columns]; or absent

  std::uint32_t cols() const { return static_cast<std::uint32_t>(states.size()) * target_dim; }
};

// Checks states against the target's number of layers.
// Errors    bad_file or unsupported, naming `what`
Result<std::vector<std::uint32_t>> fused_states(std::span<const std::int32_t> layers,
                                                std::uint32_t target_layer_count,
                                                std::string_view what);

// Tap that fuses states on the server, so that the link carries one row per position.
class FusedTap final : public Tap {
 public:
  // Requires  the bytes of the tensors outlive the tap
  FusedTap(Backend& backend, const StateFusion& fusion);

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
  Weight norm_before_;
  Weight norm_after_;
  OwnedMatrix read_;  // [kRowsMax, states * target_dim]
  OwnedMatrix fused_;
  std::vector<float> block_;
};

}  // namespace edgedraft
