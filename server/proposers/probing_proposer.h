#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "server/proposers/guess_list.h"
#include "server/sessions/session_proposer.h"

namespace edgedraft {

// A way to learn from probes what a session's target may write, without any training. One for each
// session; what it has learned stays there.
class ProbingMethod {
 public:
  virtual ~ProbingMethod() = default;

  // Rows that ask() has use for.
  virtual std::uint32_t rows_max() const = 0;
  // Guesses of a pass, and tokens of each, at most.
  virtual std::size_t guesses_max() const = 0;
  virtual std::size_t guess_length_max() const = 0;

  // What may follow the text, the best first. Requires  tokens not empty
  virtual void guess(std::span<const std::uint32_t> tokens, GuessList& guesses) const = 0;
  // What it wants to know of a pass behind the text, in at most `rows_max` rows that reach at most
  // `depth_max` positions beyond the root; nothing if that is too little. Changes nothing that it
  // has learned. Requires  tokens not empty
  virtual Probes ask(std::span<const std::uint32_t> tokens, std::uint32_t rows_max,
                     std::uint32_t depth_max) = 0;
  // The answer to what was asked last, behind a text that ended with `root`.
  virtual void learn(std::uint32_t root, std::span<const std::uint32_t> likeliest) = 0;
};

// A method at work for a session. Where its guesses leave room, those of another proposer follow
// them: with Lookahead this is the SPECTRA paper's naive combination, with SPECTRA-CORE it is
// SPECTRA.
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
    std::size_t count;   // of the answer's tokens
  };

  void take_answer(const TargetSession& session);
  DraftTree guesses(const TargetSession& session, const TreeShape& shape);
  Probes probes(const TargetSession& session, std::uint32_t rows_max);

  std::unique_ptr<ProbingMethod> method_;
  std::unique_ptr<SessionProposer> filler_;
  std::uint64_t last_id_ = 0;
  std::optional<Asked> asked_;
};

}  // namespace edgedraft
