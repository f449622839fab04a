#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "shared/base/clock.h"
#include "shared/drafting/drafter.h"

namespace edgedraft::lab {

// Clock of a pace.
struct PaceClock {
  std::function<Instant()> now = [] { return Clock::now(); };
  std::function<void(Instant)> wait_until = [](Instant end) { std::this_thread::sleep_until(end); };
  // Called for work that exceeded its pace, which distorts measurements.
  std::function<void()> on_late = [] {};

  // Waits until work started at `started` has taken `pace`.
  void keep(Instant started, Duration pace) const {
    if (now() > started + pace) on_late();
    wait_until(started + pace);
  }
};

// Minimum drafting times: runs a small drafter at a larger one's pace.
struct DraftingPace {
  Duration least{};  // per tree, and per token written offline
  Duration step{};   // per level of a tree; an offline token is one level

  bool is_kept() const { return least > Duration::zero() || step > Duration::zero(); }
};

// A drafter whose trees and offline tokens take at least the paced time. Growth with a row budget
// counts as one step, otherwise as a whole tree of its shape.
class PacedDrafter final : public Drafter {
 public:
  PacedDrafter(std::unique_ptr<Drafter> drafter, const DraftingPace& pace, PaceClock clock = {});

  std::uint32_t token_count() const override { return drafter_->token_count(); }
  void append(std::span<const std::uint32_t> tokens) override { drafter_->append(tokens); }
  void truncate(std::uint32_t count) override { drafter_->truncate(count); }
  std::uint32_t activation_cols() const override { return drafter_->activation_cols(); }
  void add_activations(std::uint32_t first, std::span<const float> rows) override {
    drafter_->add_activations(first, rows);
  }
  void drop_activations(std::uint32_t first) override { drafter_->drop_activations(first); }
  void predict(std::vector<std::uint32_t> answer) override { drafter_->predict(std::move(answer)); }
  PredictionCounts prediction_counts() const override { return drafter_->prediction_counts(); }
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override;

 private:
  void keep(Instant started, std::uint32_t levels);

  std::unique_ptr<Drafter> drafter_;
  DraftingPace pace_;
  PaceClock clock_;
};

}  // namespace edgedraft::lab
