#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/drafter.h"

namespace edgedraft {

struct OracleOptions {
  std::vector<std::uint32_t> answer;  // what the target will say, its end token included
  double acceptance = 0.8;            // probability that a position's likeliest proposal is right
  std::uint64_t seed = 0;
};

// The "tokens" of an answer as `edgedraft run --json` printed it.
// Errors    io; usage if the file is something else
Result<std::vector<std::uint32_t>> read_answer_tokens(const std::filesystem::path& file);

// A drafter for experiments that knows the answer and errs on purpose: acceptance a position is
// given, not found, so that a link can be studied apart from models. Which of its proposals for a
// position is right, the likeliest, another or none, depends on seed and position alone. Scores
// tell how often each rank is right, so a tree is worth what a tree of a drafter is worth that
// knows itself. It grows as networks do, a level or a step at a time.
//
// What comes of the target's activations is taken and forgotten.
class OracleDrafter final : public Drafter {
 public:
  // Requires  vocabulary_count > breadth of any tree
  OracleDrafter(OracleOptions options, std::uint32_t vocabulary_count,
                std::uint32_t activation_cols);

  // Another answer, to the prompt that is appended next.
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
  // Ends with the answer.
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override;

 private:
  // The rank of the right one among its proposals for that token of the answer; beyond all of them
  // if it has none.
  std::size_t right_rank(std::size_t index) const;
  // What it proposes there at that rank.
  std::uint32_t proposal(std::size_t index, std::size_t rank) const;
  // How likely that rank is right, as a logarithm.
  float log_probability(std::size_t rank) const;

  OracleOptions options_;
  std::vector<double> ranks_;  // how often each is right
  std::uint32_t vocabulary_count_;
  std::uint32_t activation_cols_;
  std::uint32_t prompt_count_ = 0;
  std::uint32_t count_ = 0;
  std::vector<float> logits_;
};

}  // namespace edgedraft
