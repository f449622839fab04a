#include "server/sessions/target_session.h"

#include <algorithm>
#include <numeric>

#include "server/sessions/checkpoint_plan.h"
#include "server/sessions/pass.h"
#include "server/sessions/session_fault.h"
#include "shared/base/check.h"
#include "shared/speculative/logprobs.h"

namespace edgedraft::server {
namespace {

Error protocol_error(std::string message) {
  return {Errc::protocol, std::move(message)};
}

}  // namespace

TargetSession::TargetSession(Decoder& decoder, std::uint32_t context_count,
                             std::function<bool(std::uint32_t)> is_end)
    : TargetSession(decoder, decoder.make_cache(), context_count, std::move(is_end)) {}

TargetSession::TargetSession(Decoder& decoder, KvCache cache, std::uint32_t context_count,
                             std::function<bool(std::uint32_t)> is_end)
    : decoder_(decoder),
      context_count_(context_count),
      is_end_(std::move(is_end)),
      cache_(std::move(cache)),
      logits_row_(decoder.config().vocabulary_count) {
  EDGEDRAFT_CHECK(context_count <= decoder.positions_max());
}

const Digest& TargetSession::hash_of(std::uint32_t count) {
  EDGEDRAFT_SESSION_CHECK(count <= tokens_.size());
  if (!hashed_ || hashed_->count != count) {
    hashed_ = Hashed{.count = count, .hash = token_hash(tokens().first(count))};
  }
  return hashed_->hash;
}

void TargetSession::keep_tokens(std::uint32_t count) {
  tokens_.resize(count);
  // Tokens after the kept ones may differ; a token's position never changes.
  if (hashed_ && hashed_->count > count) hashed_.reset();
}

Result<void> TargetSession::begin(const PrefillRequest& request) {
  EDGEDRAFT_SESSION_CHECK(!busy());
  const auto checked =
      check(request, tokens_.size(), decoder_.config().vocabulary_count, context_count_);
  if (!checked) return checked.error();
  keep_tokens(request.base_count);
  tokens_.insert(tokens_.end(), request.tokens.begin(), request.tokens.end());
  // The last token always runs again for its logits.
  const auto given_count = static_cast<std::uint32_t>(tokens_.size()) - request.provisional_count;
  cache_.set_length(std::min({cache_.length(), request.base_count, given_count - 1}));
  sampler_ = Sampler(request.sampling);
  filter_ = request.filter;
  logprobs_per_token_ = request.logprobs_per_token;
  logprobs_.clear();
  finish_ = Finish::none;
  probe_answer_ = {};
  next_checkpoint_.reset();
  request_ =
      RunningPrefill{.base_count = request.base_count, .given_count = given_count, .outcome = {}};
  return boost::system::in_place_value;
}

Result<void> TargetSession::begin(const DraftTree& tree, Probes probes) {
  EDGEDRAFT_SESSION_CHECK(!busy());
  EDGEDRAFT_SESSION_CHECK(tree.node_count() + probes.rows.node_count() <= kTreeNodesMax &&
                          probes.asked_count <= probes.rows.node_count() &&
                          probes.empty() == (probes.asked_count == 0));
  if (tokens_.empty()) return protocol_error("a draft came before any prompt");
  if (finish_ != Finish::none || tokens_.size() >= context_count_) {
    return protocol_error("a draft came after the answer's end");
  }
  if (cache_.length() + 1 != tokens_.size()) {
    return protocol_error("a draft came after a prompt that was cancelled");
  }
  if (decoder_.is_recurrent()) probes = {};  // some of their rows would come before the root's
  if (!in_vocabulary(tree) || !in_vocabulary(probes.rows)) {
    return protocol_error("a drafted token is outside the model's vocabulary");
  }
  logprobs_.clear();
  if (!probes.empty()) probe_answer_ = {};
  request_ = RunningDraft{.tree = tree, .probes = std::move(probes)};
  return boost::system::in_place_value;
}

std::optional<PrefillOutcome> TargetSession::decided(const PrefillRequest& request,
                                                     std::vector<std::uint32_t>& rest) {
  const std::uint32_t base = request.base_count;
  const bool comparable = request.provisional_count == request.tokens.size() &&
                          base >= given_count_ && base < tokens_.size() &&
                          cache_.length() + 1 == tokens_.size() &&
                          request.sampling == sampler_.params() && request.filter == filter_ &&
                          // Log probabilities are not stored.
                          request.logprobs_per_token == 0;
  if (!comparable) return std::nullopt;
  const auto chosen = std::span<const std::uint32_t>(tokens_).subspan(base);
  const auto common = static_cast<std::uint32_t>(std::ranges::mismatch(request.tokens, chosen).in1 -
                                                 request.tokens.begin());
  // The target must choose the first token it has not chosen yet.
  if (common == chosen.size()) return std::nullopt;
  // A shared page cannot be cut, and pages of windows may have been returned.
  if (!cache_.can_keep(base + common)) return std::nullopt;
  PrefillOutcome outcome{.accepted_count = common, .next = chosen[common]};
  // The previous request may have set it.
  logprobs_per_token_ = 0;
  logprobs_.clear();
  probe_answer_ = {};
  rest.assign(chosen.begin() + common + 1, chosen.end());
  if (rest.empty()) outcome.finish = finish_;
  keep_tokens(base + common + 1);
  cache_.set_length(base + common);
  cache_.trim();
  finish_ = outcome.finish;
  return outcome;
}

std::uint32_t TargetSession::pending_rows() const {
  if (const auto* draft = std::get_if<RunningDraft>(&request_)) {
    return draft->tree.row_count() + draft->probes.rows.node_count();
  }
  return static_cast<std::uint32_t>(tokens_.size()) - cache_.length();
}

std::uint32_t TargetSession::rows_wanted(std::uint32_t searched_max) const {
  const auto* prefill = std::get_if<RunningPrefill>(&request_);
  std::uint32_t rows = pending_rows();
  if (prefill == nullptr) return rows;
  if (choosing_searches()) rows = std::min(rows, given_rows(*prefill) + searched_max);
  if (next_checkpoint_ > cache_.length())
    rows = std::min(rows, *next_checkpoint_ - cache_.length());
  return rows;
}

// Only rows from the last given token on decide.
std::uint32_t TargetSession::given_rows(const RunningPrefill& prefill) const {
  const std::uint32_t first = cache_.length();
  return prefill.given_count - 1 > first ? prefill.given_count - 1 - first : 0;
}

std::uint32_t TargetSession::probe_rows() const {
  const auto* draft = std::get_if<RunningDraft>(&request_);
  return draft != nullptr ? draft->probes.rows.node_count() : 0;
}

void TargetSession::drop_probes() {
  if (auto* draft = std::get_if<RunningDraft>(&request_)) draft->probes = {};
}

SequenceRows TargetSession::begin_pass(std::uint32_t rows_max, std::uint32_t searched_max) {
  const std::uint32_t first = cache_.length();
  searched_max_ = searched_max;
  if (const auto* prefill = std::get_if<RunningPrefill>(&request_)) {
    // Rows from the last given token on may be dropped again.
    const std::uint32_t given = given_rows(*prefill);
    const std::uint32_t count = std::min(
        {rows_max, rows_wanted(searched_max), kMaskRowsMax, given + decoder_.tree_rows_max()});
    positions_.resize(count);
    std::iota(positions_.begin(), positions_.end(), first);
    first_deciding_ = std::min(given, count);
    return {.cache = &cache_,
            .tokens = std::span(tokens_).subspan(first, count),
            .batch = {.positions = positions_,
                      .prefix = first,
                      .first_slot = first,
                      .masks = decoder_.causal_masks().first(count),
                      .settled = decoder_.is_recurrent() ? first_deciding_ : 0}};
  }
  EDGEDRAFT_SESSION_CHECK(pending_rows() <= rows_max);
  return rows_of(std::get<RunningDraft>(request_));
}

SequenceRows TargetSession::rows_of(const RunningDraft& draft) {
  const std::uint32_t root = draft.root_row();
  rows_.clear();
  positions_.clear();
  masks_.clear();
  // `row_of` maps a node to its row; ancestors included.
  const auto add = [&](const DraftTree& tree, std::uint32_t begin, std::uint32_t end,
                       const auto& row_of) {
    const std::vector<std::uint32_t> depths = tree.depths();
    for (std::uint32_t node = begin; node < end; ++node) {
      rows_.push_back(node == 0 ? tokens_.back() : tree.token(node));
      // Nodes beyond the last position are placed at it; verification ends before it reaches them.
      positions_.push_back(std::min(cache_.length() + depths[node], context_count_ - 1));
      AncestorMask& mask = masks_.emplace_back();
      for (std::uint32_t above = node; above != 0; above = tree.parent(above)) {
        mask.set(row_of(above));
      }
      mask.set(root);
    }
  };
  const auto draft_row = [&](std::uint32_t node) { return root + node; };
  const auto probe_row = [&](std::uint32_t node) {
    return node <= root ? node - 1 : draft.tree.node_count() + node;
  };
  const DraftTree& probes = draft.probes.rows;
  add(probes, 1, root + 1, probe_row);
  add(draft.tree, 0, draft.tree.row_count(), draft_row);
  add(probes, root + 1, probes.row_count(), probe_row);
  first_deciding_ = root;
  const std::uint32_t first = cache_.length();
  return {
      .cache = &cache_,
      .tokens = rows_,
      .batch = {.positions = positions_, .prefix = first, .first_slot = first, .masks = masks_}};
}

std::optional<Outcome> TargetSession::finish_pass(const Matrix& logits,
                                                  std::span<const std::uint32_t> greedy) {
  if (auto* prefill = std::get_if<RunningPrefill>(&request_)) {
    const std::uint32_t first = cache_.length();
    cache_.set_length(first + static_cast<std::uint32_t>(positions_.size()));
    if (!decide(*prefill, first, logits, greedy)) return std::nullopt;
    const PrefillOutcome outcome = close(*prefill);
    request_ = std::monostate();
    return outcome;
  }
  const auto& draft = std::get<RunningDraft>(request_);
  if (!draft.probes.empty()) {
    answer(draft.probes, logits.row_range(draft.tree.row_count(), draft.probes.asked_count));
  }
  const VerifiedPath path = close(draft, logits, greedy);
  request_ = std::monostate();
  return path;
}

bool TargetSession::decide(RunningPrefill& prefill, std::uint32_t first, const Matrix& logits,
                           std::span<const std::uint32_t> greedy) {
  PrefillOutcome& outcome = prefill.outcome;
  for (auto row = first_deciding_; row < positions_.size(); ++row) {
    const std::uint32_t position = first + row + 1;
    set_answer(position, nullptr, 0);
    outcome.next = choose(logits, greedy, row - first_deciding_, position);
    if (is_end_(outcome.next)) {
      outcome.finish = Finish::end_token;
      return true;
    }
    if (stops_with(outcome.next)) {
      outcome.finish = Finish::stop;
      return true;
    }
    if (position + 1 >= context_count_) {
      outcome.finish = Finish::context;
      return true;
    }
    if (position >= tokens_.size() || tokens_[position] != outcome.next) return true;
    ++outcome.accepted_count;
  }
  return false;
}

void TargetSession::answer(const Probes& probes, const Matrix& asked) {
  probe_answer_ = {.id = probes.id, .tokens = std::vector<std::uint32_t>(asked.rows)};
  decoder_.backend().argmax({.logits = asked, .tokens = probe_answer_.tokens});
}

PrefillOutcome TargetSession::close(const RunningPrefill& prefill) {
  const std::uint32_t count = prefill.given_count + prefill.outcome.accepted_count;
  keep_tokens(count);
  cache_.set_length(count);
  cache_.trim();
  // The next prompt often replaces the answer: templates drop what a model thought.
  if (cache_.recurrent() != nullptr) cache_.recurrent()->save();
  given_count_ = prefill.given_count;
  tokens_.push_back(prefill.outcome.next);
  finish_ = prefill.outcome.finish;
  return prefill.outcome;
}

VerifiedPath TargetSession::close(const RunningDraft& draft, const Matrix& logits,
                                  std::span<const std::uint32_t> greedy) {
  VerifiedPath result = match(draft, logits, greedy);
  if (result.finish == Finish::end_token && !is_end_(result.next)) result.finish = Finish::stop;
  const std::uint32_t root_slot = cache_.length() + draft.root_row();
  std::vector<std::uint32_t> slots{root_slot};
  for (const std::uint32_t row : result.path) {
    slots.push_back(root_slot + row);
    tokens_.push_back(draft.tree.token(row));
  }
  cache_.keep(slots);
  cache_.trim();
  tokens_.push_back(result.next);
  finish_ = result.finish;
  return result;
}

VerifiedPath TargetSession::match(const RunningDraft& draft, const Matrix& logits,
                                  std::span<const std::uint32_t> greedy) {
  const std::uint32_t root_position = cache_.length();
  return edgedraft::verify(
      draft.tree,
      {.root_position = root_position,
       .context_count = context_count_,
       .choose =
           [&](std::uint32_t row, std::uint32_t position) {
             set_answer(root_position + 1, &draft.tree, row);
             return choose(logits, greedy, row, position);
           },
       // Called for each chosen token.
       .is_end = [&](std::uint32_t token) { return is_end_(token) || stops_with(token); },
       .path_max = choosing_searches() ? searched_max_ : VerifyOptions{}.path_max});
}

bool TargetSession::choosing_searches() const {
  const SamplingParams& params = sampler_.params();
  if (logprobs_per_token_ > 0 || (filter_ && filter_->changes_logits())) return true;
  return !params.greedy() && !params.keeps_all();
}

void TargetSession::abandon() {
  if (const auto* prefill = std::get_if<RunningPrefill>(&request_)) {
    keep_tokens(prefill->base_count);
    given_count_ = prefill->base_count;
    cache_.set_length(std::min(cache_.length(), prefill->base_count));
  }
  cache_.trim();
  request_ = std::monostate();
}

std::uint32_t TargetSession::slots_wanted() const {
  return cache_.length() + pending_rows();
}

std::span<const std::uint32_t> TargetSession::settled_tokens() const {
  const auto* prefill = std::get_if<RunningPrefill>(&request_);
  const std::uint32_t count =
      prefill != nullptr ? std::min(cache_.length(), prefill->given_count) : cache_.length();
  return std::span(tokens_).first(count);
}

std::span<const std::uint32_t> TargetSession::skippable_tokens() const {
  return std::span(tokens_).first(std::get<RunningPrefill>(request_).given_count - 1);
}

void TargetSession::drop_cache() {
  cache_.set_length(0);
  cache_.trim();
}

void TargetSession::set_checkpoint(std::uint32_t length) {
  checkpoint_ = length;
  next_checkpoint_.reset();
  if (const auto* prefill = std::get_if<RunningPrefill>(&request_)) {
    next_checkpoint_ = next_checkpoint(length, cache_.length(), prefill->given_count - 1);
  }
}

std::uint32_t TargetSession::checkpoint_due() const {
  const std::uint32_t settled = cache_.recurrent()->settled();
  if (settled % KvPool::kPageSlots != 0 || settled <= checkpoint_) return 0;
  // Answers settle at any position; only few are page boundaries.
  const bool is_far = settled - checkpoint_ >= checkpoint_spacing(checkpoint_);
  return is_far || next_checkpoint_ == settled ? settled : 0;
}

Result<PrefillOutcome> TargetSession::prefill(const PrefillRequest& request) {
  if (auto begun = begin(request); !begun) return begun.error();
  return std::get<PrefillOutcome>(run());
}

Result<VerifiedPath> TargetSession::verify(const DraftTree& tree) {
  if (auto begun = begin(tree); !begun) return begun.error();
  return std::get<VerifiedPath>(run());
}

Outcome TargetSession::run() {
  EDGEDRAFT_CHECK(reserve());
  PassShare share{.session = this, .rows_max = kMaskRowsMax, .outcome = {}};
  while (!share.outcome) run_pass(decoder_, std::span(&share, 1));
  return *share.outcome;
}

Result<void> TargetSession::check(const PrefillRequest& request, std::size_t known_count,
                                  std::uint32_t vocabulary_count, std::uint32_t context_count) {
  const std::uint64_t count = std::uint64_t{request.base_count} + request.tokens.size();
  if (request.base_count > known_count) {
    return protocol_error("the request builds on more tokens than the session holds");
  }
  if (request.provisional_count > request.tokens.size() || count <= request.provisional_count) {
    return protocol_error("a prompt needs at least one token");
  }
  if (std::ranges::any_of(request.tokens, [&](auto token) { return token >= vocabulary_count; })) {
    return protocol_error("a token is outside the model's vocabulary");
  }
  if (count + 1 > context_count) {
    return Error{Errc::context_full,
                 "the prompt has " + std::to_string(count) +
                     " tokens and leaves no room for an answer: the context is " +
                     std::to_string(context_count) +
                     " tokens. Shorten the prompt or start the server with a "
                     "larger --ctx"};
  }
  return boost::system::in_place_value;
}

std::uint32_t TargetSession::choose(const Matrix& logits, std::span<const std::uint32_t> greedy,
                                    std::uint32_t row, std::uint32_t position) {
  const bool is_greedy = this->greedy();
  if (is_greedy && logprobs_per_token_ == 0) return greedy[row];
  const std::span<const float> filtered = this->filtered(logits, row);
  const std::uint32_t chosen = is_greedy ? greedy[row] : sampler_.choose(filtered, position);
  tell(chosen);
  return chosen;
}

std::span<const float> TargetSession::filtered(const Matrix& logits, std::uint32_t row) {
  decoder_.backend().read(logits.row_range(row, 1), logits_row_);
  if (!filter_ || !filter_->changes_logits()) return logits_row_;
  filtered_row_ = logits_row_;
  filter_->apply(answer_, filtered_row_);
  return filtered_row_;
}

void TargetSession::tell(std::uint32_t chosen) {
  if (logprobs_per_token_ == 0) return;
  append_logprobs(logits_row_, chosen, logprobs_per_token_, logprobs_);
  if (logprobs_.size() > kToldTokensMax * logprobs_per_token_) {
    logprobs_.erase(logprobs_.begin(), logprobs_.begin() + logprobs_per_token_);
  }
}

void TargetSession::set_answer(std::uint32_t end, const DraftTree* tree, std::uint32_t row) {
  if (!filter_) return;
  const std::uint32_t begin = std::min(filter_->constraints().answer_begin, end);
  answer_.assign(tokens_.begin() + begin, tokens_.begin() + end);
  const auto root = static_cast<std::ptrdiff_t>(answer_.size());
  for (; row != 0; row = tree->parent(row)) {
    answer_.insert(answer_.begin() + root, tree->token(row));
  }
}

bool TargetSession::stops_with(std::uint32_t next) {
  if (!filter_) return false;
  answer_.push_back(next);
  const bool stops = filter_->stops(answer_);
  answer_.pop_back();
  return stops;
}

bool TargetSession::in_vocabulary(const DraftTree& tree) const {
  return std::ranges::all_of(tree.nodes(), [&](const DraftNode& node) {
    return node.token < decoder_.config().vocabulary_count;
  });
}

}  // namespace edgedraft::server
