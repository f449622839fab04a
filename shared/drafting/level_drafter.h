#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shared/drafting/bundle_config.h"
#include "shared/drafting/drafter.h"
#include "shared/runtime/backend.h"

namespace edgedraft {

// Drafts all levels of a tree at once, from the target's activations at the newest position. Guess
// k, counted from 0, is for the token k + 2 positions after it, whatever the tokens between are.
// Guesses for known tokens are skipped. So lagging activations make the tree shallower, and without
// any in reach nothing is drafted.
//
// Grows a tree by the guesses' probabilities, with the same guesses below every node of a level. It
// cannot write alone: its guesses ignore its own output.
class LevelDrafter : public Drafter {
 public:
  explicit LevelDrafter(std::uint32_t positions_max) : positions_max_(positions_max) {}

  std::uint32_t token_count() const override { return token_count_; }
  void append(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override { return {}; }

 protected:
  // Guesses for the levels below the root, likeliest first.
  struct Guesses {
    std::uint32_t per_level = 0;
    std::vector<std::uint32_t> tokens;
    std::vector<float> log_probs;
  };

  virtual const BundleConfig& sizes() const = 0;
  // Guesses per position.
  virtual std::uint32_t guess_count() const = 0;
  // Newest position before `end` to guess from.
  virtual std::optional<std::uint32_t> newest_before(std::uint32_t end) const = 0;
  // Logits of guesses first, first + 1, ..., one row each; valid until the next call.
  // Shapes    result [count, sizes().head_rows()]
  virtual Matrix guess(std::uint32_t position, std::uint32_t first, std::uint32_t count) = 0;
  virtual Backend& backend() = 0;
  // Adds a tree of a fixed form, at most `depth_max` deep, for a position without lag. False: grow
  // one by probability.
  virtual bool add_fixed_tree(TreeGrowth& /*growth*/, const Guesses& /*guesses*/,
                              std::uint32_t /*depth_max*/) {
    return false;
  }
  // Invalidates trees grown from the previous guesses.
  void forget_guesses();

 private:
  std::optional<std::uint32_t> newest() const;
  // Number of guesses whose tokens are already known; all without activations.
  std::uint32_t passed_guesses() const;
  void make_guesses(std::uint32_t per_level);
  bool grow_by_level(TreeGrowth& growth, const GrowthBudget& budget);

  std::uint32_t positions_max_;
  std::uint32_t token_count_ = 0;
  Guesses guesses_;
  std::shared_ptr<const void> made_from_;  // identity of guesses_; null: not computed
};

}  // namespace edgedraft
