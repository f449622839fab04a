#include "server/target_session.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

Error protocol_error(std::string message) {
  return {Errc::protocol, std::move(message)};
}

}  // namespace

TargetSession::TargetSession(Decoder& decoder, std::uint32_t context_count,
                             std::function<bool(std::uint32_t)> is_end)
    : decoder_(decoder),
      context_count_(context_count),
      is_end_(std::move(is_end)),
      cache_(decoder.make_cache()),
      row_(decoder.config().vocabulary_count) {
  EDGEDRAFT_CHECK(context_count <= decoder.positions_max());
}

Result<PrefillOutcome> TargetSession::prefill(const PrefillRequest& request) {
  if (auto checked = check(request); !checked) return checked.error();
  tokens_.resize(request.base_count);
  tokens_.insert(tokens_.end(), request.tokens.begin(), request.tokens.end());
  // The last token always runs again: its logits are wanted.
  const auto given_count = static_cast<std::uint32_t>(tokens_.size()) - request.provisional_count;
  cache_.set_length(std::min({cache_.length(), request.base_count, given_count - 1}));
  sampler_ = Sampler(request.sampling);
  finish_ = Finish::none;

  const PrefillOutcome outcome = run(given_count);
  tokens_.resize(given_count + outcome.accepted_count);
  cache_.set_length(given_count + outcome.accepted_count);
  tokens_.push_back(outcome.next);
  finish_ = outcome.finish;
  return outcome;
}

Result<void> TargetSession::check(const PrefillRequest& request) const {
  const std::uint64_t count = std::uint64_t{request.base_count} + request.tokens.size();
  if (request.base_count > tokens_.size()) {
    return protocol_error("the request builds on more tokens than the session holds");
  }
  if (request.provisional_count > request.tokens.size() || count <= request.provisional_count) {
    return protocol_error("a prompt needs at least one token");
  }
  if (!in_vocabulary(request.tokens)) {
    return protocol_error("a token is outside the model's vocabulary");
  }
  if (count + 1 > context_count_) {
    return Error{Errc::context_full,
                 "the prompt has " + std::to_string(count) +
                     " tokens and leaves no room for an answer: the context is " +
                     std::to_string(context_count_) +
                     " tokens. Shorten the prompt or start the server with a "
                     "larger --ctx"};
  }
  return boost::system::in_place_value;
}

PrefillOutcome TargetSession::run(std::uint32_t given_count) {
  PrefillOutcome outcome;
  rows_run_ = 0;
  while (cache_.length() < tokens_.size()) {
    const std::uint32_t first = cache_.length();
    const auto count =
        static_cast<std::uint32_t>(std::min<std::size_t>(kMaskRowsMax, tokens_.size() - first));
    decoder_.append(cache_, std::span(tokens_).subspan(first, count));
    rows_run_ += count;
    // Only rows from the last given token on decide anything.
    const std::uint32_t skipped =
        given_count - 1 > first ? std::min(given_count - 1 - first, count) : 0;
    if (skipped == count) continue;
    load_choices(skipped, count - skipped);
    for (std::uint32_t row = skipped; row < count; ++row) {
      const std::uint32_t position = first + row + 1;
      outcome.next = choose(row - skipped, position);
      if (is_end_(outcome.next)) {
        outcome.finish = Finish::end_token;
        return outcome;
      }
      if (position + 1 >= context_count_) {
        outcome.finish = Finish::context;
        return outcome;
      }
      if (position >= tokens_.size() || tokens_[position] != outcome.next) return outcome;
      ++outcome.accepted_count;
    }
  }
  return outcome;
}

Result<VerifiedPath> TargetSession::verify(const DraftTree& tree) {
  if (tokens_.empty()) return protocol_error("a draft came before any prompt");
  if (finish_ != Finish::none) return protocol_error("a draft came after the answer's end");
  if (!in_vocabulary(tree.tokens())) {
    return protocol_error("a drafted token is outside the model's vocabulary");
  }
  const std::uint32_t root_position = cache_.length();
  EDGEDRAFT_CHECK(root_position + 1 == tokens_.size());

  rows_run_ = tree.row_count();
  std::vector<std::uint32_t> rows{tokens_.back()};
  rows.insert(rows.end(), tree.tokens().begin(), tree.tokens().end());
  std::vector<std::uint32_t> positions = tree.depths();
  // Nodes beyond the last position run at it: the walk ends before it gets there.
  for (std::uint32_t& p : positions) p = std::min(root_position + p, context_count_ - 1);
  const std::vector<AncestorMask> masks = tree.masks();
  decoder_.forward(cache_, rows,
                   {.positions = positions,
                    .prefix = root_position,
                    .first_slot = root_position,
                    .masks = masks});
  load_choices(0, tree.row_count());
  const VerifiedPath result = edgedraft::verify(
      tree, {.root_position = root_position,
             .context_count = context_count_,
             .choose = [this](std::uint32_t row,
                              std::uint32_t position) { return choose(row, position); },
             .is_end = is_end_});

  std::vector<std::uint32_t> slots{root_position};
  for (const std::uint32_t row : result.path) {
    slots.push_back(root_position + row);
    tokens_.push_back(tree.token(row));
  }
  cache_.keep(slots);
  tokens_.push_back(result.next);
  finish_ = result.finish;
  return result;
}

void TargetSession::load_choices(std::uint32_t first_row, std::uint32_t count) {
  logits_ = decoder_.logits(first_row, count);
  if (!sampler_.params().greedy()) return;
  greedy_.resize(count);
  decoder_.backend().argmax({.logits = logits_, .tokens = greedy_});
}

std::uint32_t TargetSession::choose(std::uint32_t row, std::uint32_t position) {
  if (sampler_.params().greedy()) return greedy_[row];
  decoder_.backend().read(logits_.row_range(row, 1), row_);
  return sampler_.choose(row_, position);
}

bool TargetSession::in_vocabulary(std::span<const std::uint32_t> tokens) const {
  return std::all_of(tokens.begin(), tokens.end(), [&](std::uint32_t token) {
    return token < decoder_.config().vocabulary_count;
  });
}

}  // namespace edgedraft
