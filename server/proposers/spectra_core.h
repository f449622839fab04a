#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "server/proposers/probing_proposer.h"
#include "server/proposers/sequence_dictionaries.h"
#include "shared/base/random.h"

namespace edgedraft {

struct SpectraCoreOptions {
  std::uint32_t n = 5;       // tokens of a sequence in the pool
  std::uint32_t width = 15;  // sequences in the pool
  std::uint32_t guesses =
      15;  // of a pass, and sequences that the forward dictionary keeps of a token
  // The part of new candidates that is the likeliest token even if the forward dictionary knows it;
  // the others are the likeliest that it does not know. The paper has 0.1, which brought less here
  // than never to look (docs/records/drafters/asking-the-target.md).
  double threshold = 1.0;
  // For measuring what each is worth.
  bool forward = true;
  bool backward = true;
  bool sub_ngrams = true;
  // A sequence sits a position behind the one before it and sees that one's first token, as in
  // Lookahead's window, which the paper's figures of rows allow as well.
  bool staggered = false;
};

// SPECTRA-CORE: a pool of candidate sequences, each of which the target prolongs by a token a pass.
// What it wrote fills two dictionaries: forward, by a token what may follow it; backward, by up to
// n - 1 tokens the one that followed them last. The text is first prolonged token by token with the
// longest end of it that the backward dictionary knows, which makes one good guess; what the
// forward dictionary knows of the root makes many others.
//
// Where the paper is silent or contradicts itself: the backward guess comes first, for the limit on
// guesses must not cut it off (its Algorithm 1 appends it); guesses have n - 1 tokens at most, as
// its verification takes; the forward dictionary gets the rest of a sequence behind each token, as
// its text says, not the next token alone (line 38); candidate sequences are chains of their own at
// the next positions, which its mask says (`staggered` has the other reading); the pool begins with
// tokens of the text.
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
  // As many sequences of the pool as there are rows and positions for, the others another time.
  // Those that begin alike share rows unless they are staggered.
  Probes ask(std::span<const std::uint32_t> tokens, std::uint32_t rows_max,
             std::uint32_t depth_max) override;
  void learn(std::uint32_t root, std::span<const std::uint32_t> likeliest) override;

  const ForwardDictionary& forward() const { return forward_; }
  const BackwardDictionary& backward() const { return backward_; }
  // The sequences, without the tokens that the next pass is to find.
  std::span<const std::vector<std::uint32_t>> pool() const { return pool_; }

 private:
  Guess backward_guess(std::span<const std::uint32_t> tokens) const;
  // What the forward dictionary does not know, but for the threshold.
  std::uint32_t choose(std::span<const std::uint32_t> likeliest);
  void add(std::span<const std::uint32_t> sequence);

  SpectraCoreOptions options_;
  Random random_{0};
  std::vector<std::vector<std::uint32_t>> pool_;
  std::size_t next_ = 0;  // the sequence whose turn it is
  // Sequences that were asked about, and which of the asked rows is their last.
  std::vector<std::pair<std::size_t, std::uint32_t>> asked_;
  std::size_t asked_rows_ = 0;
  ForwardDictionary forward_;
  BackwardDictionary backward_;
};

}  // namespace edgedraft
