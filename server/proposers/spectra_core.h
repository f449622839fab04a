#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "server/proposers/probing_proposer.h"
#include "server/proposers/sequence_dictionaries.h"
#include "shared/base/random.h"

namespace edgedraft::server {

struct SpectraCoreOptions {
  std::uint32_t n = 5;       // tokens per sequence in the pool
  std::uint32_t width = 15;  // sequences in the pool
  std::uint32_t guesses =
      15;  // per pass, and sequences that the forward dictionary keeps for each token
};

// SPECTRA-CORE: a pool of candidate sequences, each of which the target extends by one token per
// pass. Its output fills two dictionaries: forward, from a token to sequences that follow it;
// backward, from up to n - 1 tokens to the last successor. The text is first extended token by
// token with its longest suffix in the backward dictionary, which gives one good guess. The forward
// dictionary's entries for the root give many others.
//
// The paper is silent or contradicts itself on some points. The backward guess comes first, so that
// the guess limit cannot cut it off (Algorithm 1 appends it). Guesses have at most n - 1 tokens, as
// in its verification. The forward dictionary gets the rest of a sequence after each token, as in
// the text, not only the next token (line 38). Candidate sequences are separate chains at the next
// positions, as in its mask. They are extended by the likeliest token even if the forward
// dictionary knows it: the paper's threshold, which prefers unknown ones, gained less here. The
// pool starts with tokens of the text. docs/records/drafters/asking-the-target.md measures other
// readings.
//
// Source    Le et al., SPECTRA: Faster Large Language Model Inference with Optimized Internal and
//           External Speculation (2025), Algorithm 1 and appendix B
class SpectraCore final : public ProbingMethod {
 public:
  // Requires  2 <= n <= BackwardDictionary::kKeyMax + 1, 1 <= width, 1 <= guesses, and room for
  // rows_max() in a tree
  explicit SpectraCore(const SpectraCoreOptions& options);

  std::uint32_t rows_max() const override { return (options_.n - 1) * options_.width; }
  std::size_t guesses_max() const override { return options_.guesses; }
  std::size_t guess_length_max() const override { return options_.n - 1; }

  void guess(std::span<const std::uint32_t> tokens, GuessList& guesses) const override;
  // Pool sequences that rows and positions allow; the others follow in later passes. Sequences with
  // a common prefix share rows.
  Probes ask(std::span<const std::uint32_t> tokens, std::uint32_t rows_max,
             std::uint32_t depth_max) override;
  void learn(std::uint32_t root, std::span<const std::uint32_t> likeliest) override;

  const ForwardDictionary& forward() const { return forward_; }
  const BackwardDictionary& backward() const { return backward_; }
  // The sequences, without the tokens the next pass will find.
  std::span<const std::vector<std::uint32_t>> pool() const { return pool_; }

 private:
  Guess backward_guess(std::span<const std::uint32_t> tokens) const;
  void add(std::span<const std::uint32_t> sequence);

  SpectraCoreOptions options_;
  Random random_{0};
  std::vector<std::vector<std::uint32_t>> pool_;
  std::size_t next_ = 0;  // next sequence in turn
  // Queried sequences, each with the queried row of its last token.
  std::vector<std::pair<std::size_t, std::uint32_t>> asked_;
  ForwardDictionary forward_;
  BackwardDictionary backward_;
};

}  // namespace edgedraft::server
