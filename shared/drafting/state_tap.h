#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/drafting/tap.h"
#include "shared/runtime/backend.h"

namespace edgedraft {

// Tap for drafters that read hidden states of the target unchanged: a row is the concatenated
// states, each with its own scale.
class StateTap final : public Tap {
 public:
  // `states` as numbered by StatePlanes, increasing; `dim`: the target's width.
  StateTap(Backend& backend, std::vector<std::uint32_t> states, std::uint32_t dim);

  std::span<const std::uint32_t> states() const override { return states_; }
  std::span<const std::uint32_t> scale_groups() const override { return groups_; }
  void read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
            std::span<float> rows) override;

 private:
  Backend& backend_;
  std::vector<std::uint32_t> states_;
  std::uint32_t dim_;
  std::vector<std::uint32_t> groups_;
  std::vector<float> block_;
};

// Facts of a drafter whose tap sends only the features after the final norm.
inline constexpr const char* kFeatureTap = "features";
inline std::unique_ptr<Tap> make_feature_tap(Backend& backend, std::uint32_t target_layer_count,
                                             std::uint32_t dim) {
  return std::make_unique<StateTap>(backend, std::vector<std::uint32_t>{target_layer_count + 1},
                                    dim);
}

}  // namespace edgedraft
