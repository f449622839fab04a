#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "shared/drafting/drafter.h"
#include "shared/drafting/merged_drafter.h"

namespace edgedraft {

// Tree that follows `prediction` from where it continues `answer`, the tokens so far: at the
// longest run that ends the answer, the nearest of equal ones; after tokens that the prediction
// lacks, behind, at and after the place where it was left.
//
// Scores are log probabilities that grow with the run: after r tokens in a row, r + 1 of r + 2
// (Laplace's rule of succession). A prediction is assumed to begin the answer.
DraftTree prediction_tree(std::span<const std::uint32_t> prediction,
                          std::span<const std::uint32_t> answer, const TreeShape& shape);

// Rows that a prediction may still propose. A wrong prediction soon stops costing rows, and one
// that fits again returns after a few tokens:
//
//   rejected rows <= kFirst + kPerHit * tokens that the prediction foretold.
//
// A foretold token pays whether or not it was proposed, so a silent prediction costs nothing to
// watch.
class PredictionAllowance {
 public:
  // Two trees of one text of 32 levels, or the three branches of an edit.
  static constexpr std::uint32_t kFirst = 64;
  static constexpr std::uint32_t kPerHit = 2;
  // Bounds the rows that are rejected in a row after a long text that fitted.
  static constexpr std::uint32_t kMost = 128;

  std::uint32_t rows() const { return rows_; }
  // Requires  count <= rows()
  void propose(std::uint32_t count) { rows_ -= count; }
  void accept() { earn(1); }
  void foretell() { earn(kPerHit); }

 private:
  void earn(std::uint32_t rows) { rows_ = std::min(kMost, rows_ + rows); }

  std::uint32_t rows_ = kFirst;
};

// Adds a client's prediction of an answer, such as the text to edit, to a drafter's trees, within
// a PredictionAllowance. Without a prediction it equals the drafter.
class PredictedDrafter final : public Drafter {
 public:
  explicit PredictedDrafter(std::unique_ptr<Drafter> drafter);

  std::uint32_t token_count() const override { return merged_.token_count(); }
  void append(std::span<const std::uint32_t> tokens) override { merged_.append(tokens); }
  void truncate(std::uint32_t count) override { merged_.truncate(count); }
  std::uint32_t activation_cols() const override { return merged_.activation_cols(); }
  void add_activations(std::uint32_t first, std::span<const float> rows) override {
    merged_.add_activations(first, rows);
  }
  void drop_activations(std::uint32_t first) override { merged_.drop_activations(first); }
  void predict(std::vector<std::uint32_t> answer) override;
  PredictionCounts prediction_counts() const override;
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override { return merged_.next_logits(); }

 private:
  class Follower;
  PredictedDrafter(std::unique_ptr<Drafter> drafter, std::unique_ptr<Follower> follower);

  Drafter& drafter_;
  Follower& follower_;
  MergedDrafter merged_;  // owns both
};

}  // namespace edgedraft
