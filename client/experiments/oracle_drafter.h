#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/drafter.h"

namespace edgedraft {

struct OracleOptions {
  std::vector<std::uint32_t> answer;  // what the target will say, its end token included
  double acceptance;                  // probability that a position's proposal is right
  std::uint64_t seed;
};

// The "tokens" of an answer as `edgedraft run --json` printed it.
// Errors    io; usage if the file is something else
Result<std::vector<std::uint32_t>> read_answer_tokens(const std::filesystem::path& file);

// A drafter for experiments that knows the answer and errs on purpose: acceptance a position is
// given, not found, so that a link can be studied apart from models. Whether it is right about a
// position depends on seed and position alone; each position is put to the target at most once, so
// that the outcomes are independent. Trees hold the answer's path and, up to their size, wrong
// siblings: they never raise the acceptance.
//
// What comes of the target's activations is taken and forgotten.
class OracleDrafter final : public Drafter {
 public:
  // Requires  vocabulary_count > breadth of any tree
  OracleDrafter(OracleOptions options, std::uint32_t vocabulary_count,
                std::uint32_t activation_cols);

  std::uint32_t token_count() const override { return count_; }
  // The first tokens are the prompt.
  void append(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  std::uint32_t activation_cols() const override { return activation_cols_; }
  // Ends with the answer.
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override;

 private:
  // What it proposes for that token of the answer.
  std::uint32_t proposal(std::size_t index) const;

  OracleOptions options_;
  std::uint32_t vocabulary_count_;
  std::uint32_t activation_cols_;
  std::uint32_t prompt_count_ = 0;
  std::uint32_t count_ = 0;
  std::vector<float> logits_;
};

}  // namespace edgedraft
