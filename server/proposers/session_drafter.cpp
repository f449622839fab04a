#include "server/proposers/session_drafter.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "server/sessions/session_fault.h"

namespace edgedraft {
namespace {

// Of a long prompt's older positions so many are read a tree: nobody waits for all of them.
constexpr std::uint32_t kOlderRows = 64;

}  // namespace

SessionDrafter::SessionDrafter(std::unique_ptr<DraftNetwork> network,
                               std::shared_ptr<std::uint32_t> count)
    : network_(std::move(network)), count_(std::move(count)) {
  ++*count_;
}

SessionDrafter::SessionDrafter(std::unique_ptr<MoaNetwork> network, Tap& tap,
                               std::shared_ptr<std::uint32_t> count)
    : SessionDrafter(std::unique_ptr<DraftNetwork>(), std::move(count)) {
  memory_ = network.get();
  tap_ = &tap;
  network_ = std::move(network);
}

SessionDrafter::~SessionDrafter() {
  --*count_;
}

DraftTree SessionDrafter::draft(const TargetSession& session, const TreeShape& shape) {
  const auto tokens = session.tokens();
  const auto count = static_cast<std::uint32_t>(tokens.size());
  EDGEDRAFT_SESSION_CHECK(count == session.valid_count() + 1);
  const std::uint32_t room =
      network_->position_count_max() - std::min(network_->position_count_max(), count);
  if (room == 0) return {};
  follow(tokens);
  if (memory_ != nullptr) read_memory(session);
  network_->commit(tokens.subspan(tokens_.size()));
  tokens_.assign(tokens.begin(), tokens.end());
  TreeShape fitting = shape;
  fitting.depth = std::min(shape.depth, room);
  return grow_tree(*network_, fitting);
}

// Back to what the network and the session have in common; the last token always runs again, since
// its logits are wanted.
void SessionDrafter::follow(std::span<const std::uint32_t> tokens) {
  const auto common = static_cast<std::uint32_t>(
      std::mismatch(tokens_.begin(), tokens_.end(), tokens.begin(), tokens.end()).first -
      tokens_.begin());
  if (memory_ != nullptr && common < memory_end_) {
    memory_->truncate_memory(common);
    memory_end_ = common;
    memory_first_ = std::min(memory_first_, common);
  }
  const std::uint32_t kept = std::min(common, static_cast<std::uint32_t>(tokens.size()) - 1);
  if (kept < network_->committed_count()) network_->truncate(kept);
  tokens_.resize(kept);
}

void SessionDrafter::read_memory(const TargetSession& session) {
  const std::uint32_t end = session.valid_count();
  if (memory_first_ == memory_end_) {
    memory_first_ = memory_end_ = end - std::min(end, kOlderRows);
  } else if (memory_first_ > 0) {
    const std::uint32_t first = memory_first_ - std::min(memory_first_, kOlderRows);
    read_rows(session, first, memory_first_);
    memory_first_ = first;
  }
  read_rows(session, memory_end_, end);
  memory_end_ = end;
}

void SessionDrafter::read_rows(const TargetSession& session, std::uint32_t first,
                               std::uint32_t end) {
  if (first == end) return;
  const auto groups = tap_->scale_groups();
  const std::size_t cols = std::accumulate(groups.begin(), groups.end(), std::size_t{0});
  rows_.resize((end - first) * cols);
  tap_->read(session.cache(), first, end - first, rows_);
  memory_->extend_memory(first, rows_);
}

}  // namespace edgedraft
