#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/drafting/gemma4_assistant/assistant_model.h"
#include "shared/drafting/tap.h"
#include "shared/runtime/layer.h"
#include "shared/runtime/weight_store.h"

namespace edgedraft {

// The server's half of an assistant: keys and values of the layers that it attends to, and the
// product of its first projection and the target's feature.
//
// Values that no later row needs are zeros, which compress well: keys and values before a layer's
// window, and products of all but the last positions.
class AssistantTap final : public Tap {
 public:
  // Requires  the bytes of the model's tensors outlive the tap
  AssistantTap(Backend& backend, const AssistantModel& model);

  std::span<const std::uint32_t> states() const override { return {&feature_, 1}; }
  std::span<const std::uint32_t> scale_groups() const override { return groups_; }
  void read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
            std::span<float> rows) override;

 private:
  struct Source {
    std::uint32_t layer;
    std::uint32_t cols;
    std::uint32_t window;
    bool sends_keys;
  };

  // Reads positions first..end - 1, those of `rows`, to the columns from `col` on.
  void read_slots(const CacheView& from, std::uint32_t first, std::uint32_t end, std::uint32_t col,
                  std::span<float> rows);
  void read_products(const CacheView& features, std::uint32_t first, std::uint32_t end,
                     std::uint32_t col, std::span<float> rows);
  void copy_rows(std::uint32_t cols, std::uint32_t col, std::span<float> rows);

  Backend& backend_;
  std::vector<Source> sources_;
  std::vector<std::uint32_t> groups_;
  std::uint32_t row_cols_;
  std::uint32_t feature_;  // state of the target
  WeightStore store_;
  Weight fc_feature_;
  OwnedMatrix features_;
  OwnedMatrix products_;
  std::vector<float> block_;
};

}  // namespace edgedraft
