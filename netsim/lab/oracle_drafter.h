#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/drafter.h"

namespace edgedraft::lab {

struct OracleOptions {
  std::vector<std::uint32_t> answer;  // the target's answer, its end token included
  double acceptance = 0.8;            // probability that a position's likeliest proposal is right
  std::uint64_t seed = 0;
};

// Reads "tokens" of an answer printed by `edgedraft run --json`.
// Errors    io; usage if the file has another format
Result<std::vector<std::uint32_t>> read_answer_tokens(const std::filesystem::path& file);

// A drafter for experiments that knows the answer and errs with a given probability per position. A
// link can thus be studied without models. Whether the likeliest proposal of a position is right,
// another one, or none, depends on seed and position only. Scores are the true probabilities of
// each rank, as if the drafter were perfectly calibrated. It grows like a network's tree, a level
// or a step at a time.
//
// The target's activations are accepted and ignored.
class OracleDrafter final : public Drafter {
 public:
  // Requires  vocabulary_count > breadth of any tree
  OracleDrafter(OracleOptions options, std::uint32_t vocabulary_count,
                std::uint32_t activation_cols);

  // Sets the answer to the prompt appended next.
  void expect(std::vector<std::uint32_t> answer, std::uint64_t seed) {
    options_.answer = std::move(answer);
    options_.seed = seed;
    prompt_count_ = 0;
  }

  std::uint32_t token_count() const override { return count_; }
  // The first tokens are the prompt.
  void append(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  std::uint32_t activation_cols() const override { return activation_cols_; }
  // Stops at the end of the answer.
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override;

 private:
  // Rank of the right proposal for that answer token; past all ranks if there is none.
  std::size_t right_rank(std::size_t index) const;
  // The proposal for that token at that rank.
  std::uint32_t proposal(std::size_t index, std::size_t rank) const;
  // Log probability that the rank is right.
  float log_probability(std::size_t rank) const;

  OracleOptions options_;
  std::vector<double> ranks_;  // probability per rank
  std::uint32_t vocabulary_count_;
  std::uint32_t activation_cols_;
  std::uint32_t prompt_count_ = 0;
  std::uint32_t count_ = 0;
  std::vector<float> logits_;
};

}  // namespace edgedraft::lab
