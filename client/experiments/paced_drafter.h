#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "shared/base/clock.h"
#include "shared/drafting/drafter.h"

namespace edgedraft {

// Least times of drafting: a small drafter at a larger one's pace.
struct DraftingPace {
  Duration least{};  // of a tree, and of a token written offline
  Duration step{};   // the same for each of a tree's levels; such a token is one

  bool is_kept() const { return least > Duration::zero() || step > Duration::zero(); }
};

// What a tree or an offline token was to take at least, and what it took before any waiting.
struct PacedStep {
  Duration pace;
  Duration computed;
};

// The clock by which a pace is kept.
struct PaceClock {
  std::function<Instant()> now = [] { return Clock::now(); };
  std::function<void(Instant)> wait_until = [](Instant end) { std::this_thread::sleep_until(end); };
};

// A drafter whose trees and offline tokens take as long as a pace says. Growth with a budget of
// rows counts as one step, without as a whole tree of its shape.
class PacedDrafter final : public Drafter {
 public:
  PacedDrafter(std::unique_ptr<Drafter> drafter, const DraftingPace& pace, PaceClock clock = {});

  // The newest step, unless it was taken already.
  std::optional<PacedStep> take_step();
  // Steps that took longer than their pace: these distort what is measured.
  std::uint32_t late_count() const { return late_count_; }

  std::uint32_t token_count() const override { return drafter_->token_count(); }
  void append(std::span<const std::uint32_t> tokens) override { drafter_->append(tokens); }
  void truncate(std::uint32_t count) override { drafter_->truncate(count); }
  std::uint32_t activation_cols() const override { return drafter_->activation_cols(); }
  void add_activations(std::uint32_t first, std::span<const float> rows) override {
    drafter_->add_activations(first, rows);
  }
  void drop_activations(std::uint32_t first) override { drafter_->drop_activations(first); }
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override;

 private:
  void keep(Instant started, std::uint32_t levels);

  std::unique_ptr<Drafter> drafter_;
  DraftingPace pace_;
  PaceClock clock_;
  std::optional<PacedStep> step_;
  std::uint32_t late_count_ = 0;
};

}  // namespace edgedraft
