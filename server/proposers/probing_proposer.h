#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "server/sessions/session_proposer.h"
#include "shared/speculative/draft_tree.h"

namespace edgedraft::server {

// A token sequence that may follow the root, with each token's probability given the previous ones.
struct Guess {
  std::vector<std::uint32_t> tokens;
  std::vector<float> log_probs;
};

// Guesses of several sources, best first, up to a method's limits. Sequences with a common prefix
// share its nodes in the tree.
class GuessList {
 public:
  // Maximum guesses, and tokens per guess.
  GuessList(std::size_t count_max, std::size_t length_max)
      : count_max_(count_max), length_max_(length_max) {}

  bool full() const { return guesses_.size() >= count_max_; }
  // Ignores duplicates, empty guesses, and guesses beyond the limit.
  void add(Guess guess);
  // Adds the tree's root-to-leaf paths, in leaf order.
  void add(const DraftTree& tree);

  // The best `nodes_max` nodes of all.
  DraftTree tree(std::uint32_t nodes_max) const;
  std::span<const Guess> guesses() const { return guesses_; }

 private:
  std::size_t count_max_;
  std::size_t length_max_;
  std::vector<Guess> guesses_;
};

// Prior probabilities for n-gram guesses. Only their order matters if a tree is cut; next to hints
// they are calibrated by acceptance (Run).

// Guess from a forward dictionary; `rank` counts the newer sequences of the key.
inline Guess forward_guess(std::span<const std::uint32_t> sequence, std::size_t rank) {
  constexpr double kFirst = 0.25;  // first token of the newest sequence
  constexpr double kOlder = 0.85;  // factor per newer sequence
  constexpr double kNext = 0.6;    // each further token
  Guess guess{.tokens = {sequence.begin(), sequence.end()}, .log_probs = {}};
  guess.log_probs.assign(sequence.size(), static_cast<float>(std::log(kNext)));
  guess.log_probs.front() =
      static_cast<float>(std::log(kFirst) + static_cast<double>(rank) * std::log(kOlder));
  return guess;
}

// Log probability of a backward-dictionary token, by context length.
inline float backward_log_prob(std::size_t context) {
  constexpr std::array kByContext{0.3, 0.45, 0.6, 0.7};
  return static_cast<float>(std::log(kByContext[std::min(context, kByContext.size()) - 1]));
}

// Learns likely continuations from probes, without training. One per session; its state stays in
// the session.
class ProbingMethod {
 public:
  virtual ~ProbingMethod() = default;

  // Rows that ask() can use.
  virtual std::uint32_t rows_max() const = 0;
  // Maximum guesses per pass, and tokens per guess.
  virtual std::size_t guesses_max() const = 0;
  virtual std::size_t guess_length_max() const = 0;

  // Possible continuations of the text, best first.
  // Requires  tokens not empty
  virtual void guess(std::span<const std::uint32_t> tokens, GuessList& guesses) const = 0;
  // Probes for a pass after the text, with at most `rows_max` rows up to `depth_max` positions
  // after the root; empty if that is too little. Changes no state.
  // Requires  tokens not empty
  virtual Probes ask(std::span<const std::uint32_t> tokens, std::uint32_t rows_max,
                     std::uint32_t depth_max) = 0;
  // The likeliest token per queried row of the last probes, for a text that ended with `root`.
  virtual void learn(std::uint32_t root, std::span<const std::uint32_t> likeliest) = 0;
};

// Runs a method for a session. If its guesses leave room, another proposer's follow: with Lookahead
// this is the SPECTRA paper's naive combination, with SPECTRA-CORE it is SPECTRA.
class ProbingProposer final : public SessionProposer {
 public:
  // `filler` may be null.
  explicit ProbingProposer(std::unique_ptr<ProbingMethod> method,
                           std::unique_ptr<SessionProposer> filler = nullptr);

  Proposal propose(const TargetSession& session, const ProposalLimits& limits) override;

 private:
  struct Asked {
    std::uint64_t id;
    std::uint32_t root;  // token
    std::size_t count;   // number of queried rows
  };

  void take_answer(const TargetSession& session);
  DraftTree guesses(const TargetSession& session, const TreeShape& shape);
  Probes probes(const TargetSession& session, std::uint32_t rows_max);

  std::unique_ptr<ProbingMethod> method_;
  std::unique_ptr<SessionProposer> filler_;
  std::uint64_t last_id_ = 0;
  std::optional<Asked> asked_;
};

}  // namespace edgedraft::server
