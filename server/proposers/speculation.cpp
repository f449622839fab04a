#include "server/proposers/speculation.h"

#include <algorithm>
#include <utility>

#include "server/proposers/drafter_proposer.h"
#include "server/sessions/session_store.h"
#include "shared/base/check.h"

namespace edgedraft::server {
namespace {

constexpr Duration kMakeAgainAfter = std::chrono::seconds(1);

}  // namespace

ProposerSource drafter_source(Backend& backend, const DrafterModel& drafter, Tap* tap,
                              std::uint32_t context_count) {
  const std::uint32_t positions = std::min(context_count, drafter.facts().context_count);
  const std::shared_ptr<DrafterWeights> weights = drafter.load(backend, positions);
  return {.make =
              [weights, positions, tap](std::shared_ptr<std::uint32_t> count) {
                return std::make_unique<DrafterProposer>(
                    DrafterProposer::Parts{.drafter = weights->make_drafter(),
                                           .tap = tap,
                                           .positions_max = positions,
                                           .count = std::move(count)});
              },
          .session_bytes = weights->drafter_bytes()};
}

Speculation::Speculation(ProposerSource source, const SpeculationOptions& options)
    : source_(std::move(source)),
      options_(options),
      budget_(options.tree.nodes + 1),
      probe_budget_(source_.probe_rows) {
  EDGEDRAFT_CHECK(valid(options.tree));
}

Drafted Speculation::draft(const TargetSession& session, std::unique_ptr<SessionProposer>& proposer,
                           const Step& step) {
  // The last token is the target's own; probes could help no later one.
  if (step.tokens_left <= 1) return {};
  ProposalLimits limits{.tree = options_.tree};
  TreeShape& shape = limits.tree;
  if (!step.weighed_by_caller) {
    shape.nodes = std::min(shape.nodes, budget_.next_rows(step.sessions, step.costs) - 1);
  }
  shape.limit(std::min(shape.nodes, step.tokens_left - 1));
  const std::uint32_t probe_rows = probe_budget_.next_rows(
      {.sessions = step.sessions, .pass_rows_max = step.rows_max, .costs = step.costs});
  // Beside the largest tree.
  limits.probe_rows =
      std::min(probe_rows, step.rows_max - std::min(step.rows_max, options_.tree.nodes + 1));
  if (shape.depth == 0 && limits.probe_rows == 0) return {};
  const Instant started = options_.now();
  if (!proposer) {
    if (started < make_again_) return {};
    if (full() && (!step.make_room || !step.make_room())) return {};
  }
  Proposal proposal = propose(session, proposer, limits);
  Drafted drafted{.tree = std::move(proposal.tree), .probes = std::move(proposal.probes)};
  drafted.time = options_.now() - started;
  if (!drafted.tree.empty()) budget_.observe_drafting(drafted.tree.row_count(), drafted.time);
  return drafted;
}

Result<std::uint64_t> Speculation::take_part_of(std::uint64_t kv_bytes,
                                                std::uint64_t target_bytes) {
  const std::uint64_t both = target_bytes + session_bytes();
  if (session_bytes() > 0 && kv_bytes < both) {
    return too_little_kv_memory(options_.context_count, target_bytes, session_bytes());
  }
  bytes_max_ = kv_bytes / both * session_bytes();
  return kv_bytes - *bytes_max_;
}

Proposal Speculation::propose(const TargetSession& session,
                              std::unique_ptr<SessionProposer>& proposer,
                              const ProposalLimits& limits) {
  try {
    if (!proposer) {
      proposer = source_.make(count_);
      if (options_.decorate) proposer = options_.decorate(std::move(proposer));
    }
    return proposer->propose(session, limits);
  } catch (const DeviceError& error) {
    proposer.reset();
    make_again_ = options_.now() + kMakeAgainAfter;
    options_.on_failure(error.what());
    return {};
  }
}

}  // namespace edgedraft::server
