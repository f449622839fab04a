#include "server/proposers/drafter_proposer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "server/sessions/session_fault.h"
#include "shared/base/check.h"
#include "shared/speculative/draw_ranking.h"
#include "shared/types/sampling_params.h"

namespace edgedraft::server {
namespace {

// Older positions of a long prompt read per tree; bounds the delay of each tree.
constexpr std::uint32_t kOlderRows = 64;

}  // namespace

DrafterProposer::DrafterProposer(Parts parts) : parts_(std::move(parts)) {
  EDGEDRAFT_CHECK(parts_.drafter->activation_cols() == 0 || parts_.tap != nullptr);
  if (parts_.count) ++*parts_.count;
}

DrafterProposer::~DrafterProposer() {
  if (parts_.count) --*parts_.count;
}

Proposal DrafterProposer::propose(const TargetSession& session, const ProposalLimits& limits) {
  const auto tokens = session.tokens();
  EDGEDRAFT_SESSION_CHECK(tokens.size() == session.valid_count() + 1);
  if (tokens.size() >= parts_.positions_max || limits.tree.nodes == 0) return {};
  follow(tokens);
  if (parts_.tap != nullptr) read_activations(session);
  // Other sessions wait meanwhile: a long text is read in parts and drafted for afterwards. A tree
  // has fewer rows than a part.
  TreeGrowth growth(limits.tree);
  // The sampling noise is known, as on a device. The grammar is not applied: its search budget
  // belongs to the answer.
  const SamplingParams& sampling = session.sampling();
  if (!sampling.greedy()) {
    growth.set_choice([&sampling, position = tokens.size()](std::span<const std::uint32_t> path,
                                                            std::vector<DraftGuess>& guesses) {
      rank_by_draw(sampling, position + path.size(), guesses);
    });
  }
  parts_.drafter->grow(growth, {.rows = kMaskRowsMax});
  return {.tree = growth.tree()};
}

// Rewinds to the common prefix of drafter and session, and continues from there.
void DrafterProposer::follow(std::span<const std::uint32_t> tokens) {
  const auto common = static_cast<std::uint32_t>(
      std::mismatch(tokens_.begin(), tokens_.end(), tokens.begin(), tokens.end()).first -
      tokens_.begin());
  if (common < tokens_.size()) parts_.drafter->truncate(common);
  // The last token, even of a rewound session, has not been through a pass.
  const std::uint32_t rows = std::min(common, static_cast<std::uint32_t>(tokens.size()) - 1);
  if (rows < rows_end_) {
    parts_.drafter->drop_activations(rows);
    rows_end_ = rows;
    rows_first_ = std::min(rows_first_, rows);
  }
  parts_.drafter->append(tokens.subspan(common));
  tokens_.assign(tokens.begin(), tokens.end());
}

void DrafterProposer::read_activations(const TargetSession& session) {
  const std::uint32_t end = session.valid_count();
  if (rows_first_ == rows_end_) {
    rows_first_ = rows_end_ = end - std::min(end, kOlderRows);
  } else if (rows_first_ > 0) {
    const std::uint32_t first = rows_first_ - std::min(rows_first_, kOlderRows);
    read_rows(session, first, rows_first_);
    rows_first_ = first;
  }
  read_rows(session, rows_end_, end);
  rows_end_ = end;
}

void DrafterProposer::read_rows(const TargetSession& session, std::uint32_t first,
                                std::uint32_t end) {
  if (first == end) return;
  const auto groups = parts_.tap->scale_groups();
  const std::size_t cols = std::accumulate(groups.begin(), groups.end(), std::size_t{0});
  rows_.resize((end - first) * cols);
  parts_.tap->read(session.cache(), first, end - first, rows_);
  parts_.drafter->add_activations(first, rows_);
}

}  // namespace edgedraft::server
