#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "server/proposers/guess_list.h"
#include "server/sessions/session_proposer.h"

namespace edgedraft::server {

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
  // Answer to the last probes, for a text that ended with `root`.
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

}  // namespace edgedraft::server
