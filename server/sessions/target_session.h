#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/sha256.h"
#include "shared/constraints/constraint_filter.h"
#include "shared/runtime/checkpoint_pool.h"
#include "shared/runtime/decoder.h"
#include "shared/speculative/draft_tree.h"
#include "shared/speculative/sampling.h"
#include "shared/speculative/verification.h"
#include "shared/types/logprob.h"

namespace edgedraft::server {

// Tokens to append after the first `base_count` of a session.
struct PrefillRequest {
  std::uint32_t base_count;               // session tokens to keep; the rest is dropped
  std::span<const std::uint32_t> tokens;  // tokens to append
  // The last `provisional_count` of `tokens` were written offline by a drafter. They are verified
  // like a draft; tokens from the first mismatch on are dropped. 0: all tokens are given.
  std::uint32_t provisional_count = 0;
  SamplingParams sampling;
  std::shared_ptr<ConstraintFilter> filter{};  // constraint on the answer; null: none
  // Log probabilities to report per chosen token: its own, then those of the likeliest tokens.
  std::uint32_t logprobs_per_token = 0;
};

struct PrefillOutcome {
  std::uint32_t accepted_count = 0;  // provisional tokens accepted
  std::uint32_t next = 0;
  Finish finish = Finish::none;
};

using Outcome = std::variant<PrefillOutcome, VerifiedPath>;

// Rows that query the target: what follows these tokens? They are placed below the session's root
// like a draft, see only their own ancestors, and are never accepted.
struct Probes {
  DraftTree rows;
  std::uint32_t asked_count = 0;  // the last rows, for which the likeliest tokens are returned
  std::uint64_t id = 0;           // echoed in the answer

  bool empty() const { return rows.empty(); }
};

struct ProbeAnswer {
  std::uint64_t id = 0;
  std::vector<std::uint32_t> tokens{};  // one per queried row
};

// One sequence on the target: its tokens, their cache, and the distribution of the next token.
//
// Between requests tokens() holds every verified token and, last, the root: chosen but not yet run,
// so valid_count() = tokens().size() - 1 positions have keys and values.
//
// A request is begun, takes part in passes (run_pass) until one returns its outcome, and may be
// abandoned between two passes.
class TargetSession {
 public:
  static constexpr std::size_t kToldTokensMax = 256;
  // Draft tokens followed, or provisional tokens chosen, per pass if choosing_searches(). Bounds
  // the search time per pass; honest drafts are rarely longer.
  static constexpr std::uint32_t kSearchedPathMax = 16;

  // Owns its cache.
  // Requires  decoder outlives the session; context_count <= decoder.positions_max()
  TargetSession(Decoder& decoder, std::uint32_t context_count,
                std::function<bool(std::uint32_t)> is_end);
  // Uses a cache from a pool: the caller must reserve() before each pass.
  TargetSession(Decoder& decoder, KvCache cache, std::uint32_t context_count,
                std::function<bool(std::uint32_t)> is_end);

  std::span<const std::uint32_t> tokens() const { return tokens_; }
  std::uint32_t valid_count() const { return cache_.length(); }
  const KvCache& cache() const { return cache_; }
  std::uint32_t context_count() const { return context_count_; }
  const std::shared_ptr<ConstraintFilter>& filter() const { return filter_; }
  const SamplingParams& sampling() const { return sampler_.params(); }
  // token_hash() of the first `count` tokens. The last result is cached, since clients may ask
  // repeatedly.
  // Requires  count <= tokens().size()
  const Digest& hash_of(std::uint32_t count);

  // Errors    protocol      base_count beyond the session, no tokens, a token outside the
  //                         vocabulary, more provisional tokens than tokens, or no given token
  //                         before them
  //           context_full  the tokens and one more exceed the context
  // A refused request leaves the session unchanged.
  // Requires  !busy()
  Result<void> begin(const PrefillRequest& request);
  // Errors of begin() for a session of `length` tokens.
  static Result<void> check(const PrefillRequest& request, std::size_t known_count,
                            std::uint32_t vocabulary_count, std::uint32_t context_count);
  // Verifies a tree below the root in one pass. An empty tree is a plain decoding step. Probes take
  // part and change nothing.
  // Errors    protocol  before the first prefill, after the end, or for a token outside the
  //                     vocabulary
  // Requires  !busy(); tree and probes have at most kTreeNodesMax nodes together
  Result<void> begin(const DraftTree& tree, Probes probes = {});

  // Outcome of a request of provisional tokens only, if the session has already chosen the tokens
  // to compare with. It ends after the first mismatch, without a pass. Empty if they are not chosen
  // yet, or were chosen under another constraint. Chosen tokens beyond the outcome go into `rest`.
  // Requires  !busy()
  std::optional<PrefillOutcome> decided(const PrefillRequest& request,
                                        std::vector<std::uint32_t>& rest);

  // True from begin() to the request's outcome.
  bool busy() const { return !std::holds_alternative<std::monostate>(request_); }
  // Rows the request still has to run, probes included. A prompt may run in parts, a draft only
  // whole.
  std::uint32_t pending_rows() const;
  // Rows for one pass. A checked text gets at most `searched_max` if choosing_searches().
  std::uint32_t rows_wanted(std::uint32_t searched_max = kSearchedPathMax) const;
  // True if each choice searches, weighs or sorts the vocabulary, on the thread shared by all
  // sessions.
  bool choosing_searches() const;
  // Probes among the pending rows; the request can do without them.
  std::uint32_t probe_rows() const;
  void drop_probes();
  // Answer to the last probes; valid until the next begin() with probes or of a prompt.
  const ProbeAnswer& probe_answer() const { return probe_answer_; }
  // True if it chooses the likeliest token.
  bool greedy() const {
    return sampler_.params().greedy() && !(filter_ && filter_->changes_logits());
  }

  // Rows for the next pass, at most `rows_max`; valid until finish_pass(). If choosing_searches(),
  // at most `searched_max` draft tokens are followed, or provisional tokens chosen.
  // Requires  busy(), rows_max > 0 and, for a draft, rows_max >= pending_rows()
  SequenceRows begin_pass(std::uint32_t rows_max, std::uint32_t searched_max = kSearchedPathMax);
  // First row whose logits decide a token (all later rows do too); the row count if none does.
  std::uint32_t first_deciding_row() const { return first_deciding_; }
  // Consumes a pass: logits of the deciding rows and, for a greedy session, their likeliest tokens.
  // Empty if the prompt has more rows to run.
  std::optional<Outcome> finish_pass(const Matrix& logits, std::span<const std::uint32_t> greedy);
  // Log probabilities of the last outcome's tokens, in order; at most its last kToldTokensMax.
  std::vector<Logprob> take_logprobs() { return std::exchange(logprobs_, {}); }
  // Drops the request. A draft leaves no trace; a prompt leaves the first base_count tokens.
  void abandon();

  // --- memory from a pool ---

  // Slots for the request's rows and all positions before them.
  // Requires  busy()
  std::uint32_t slots_wanted() const;
  // Takes pages for them. Returns false, unchanged, if the pool has too few.
  bool reserve() { return cache_.reserve(slots_wanted()); }
  // Tokens with final keys and values: neither draft nor provisional.
  std::span<const std::uint32_t> settled_tokens() const;
  // Prompt tokens whose rows decide nothing; they need not run if their keys and values are known.
  std::span<const std::uint32_t> skippable_tokens() const;
  // Adopts shared pages for the first tokens, those of windows for the last of them, and the
  // recurrent states after them.
  // Requires  a prompt, tokens as in skippable_tokens()
  void adopt(std::span<const std::uint32_t> pages, std::span<const std::uint32_t> window_pages = {},
             const StateCheckpoint* states = nullptr) {
    cache_.adopt(pages, window_pages, states);
  }
  // Drops all keys and values; the prompt then runs from its first token.
  // Requires  a prompt, no pass yet
  void drop_cache();

  // --- checkpoints of recurrent states ---

  // Plans checkpoints after one that covers the first `length` tokens, or none: passes of a prompt
  // end at each.
  void set_checkpoint(std::uint32_t length);
  // Positions of a checkpoint to take after this pass, all of them settled; 0: none.
  std::uint32_t checkpoint_due() const;
  std::shared_ptr<const StateCheckpoint> save_states(CheckpointPool& pool) {
    return pool.save(*cache_.recurrent());
  }

  // Runs a whole request in passes of its own.
  // Errors as of begin().
  // Requires  memory for it
  Result<PrefillOutcome> prefill(const PrefillRequest& request);
  Result<VerifiedPath> verify(const DraftTree& tree);

 private:
  struct RunningPrefill {
    std::uint32_t base_count;
    std::uint32_t given_count;  // session tokens that are not provisional
    PrefillOutcome outcome;
  };
  struct RunningDraft {
    DraftTree tree;
    Probes probes;

    // Row order of a pass: probes that are not queried, root and tree, then queried probes.
    std::uint32_t root_row() const { return probes.rows.node_count() - probes.asked_count; }
  };

  struct Hashed {
    std::uint32_t count;
    Digest hash;
  };

  void keep_tokens(std::uint32_t count);
  // Pending rows before the first deciding one.
  std::uint32_t given_rows(const RunningPrefill& prefill) const;
  Outcome run();
  SequenceRows rows_of(const RunningDraft& draft);
  void answer(const Probes& probes, const Matrix& asked);
  // True if this pass's rows complete the outcome.
  bool decide(RunningPrefill& prefill, std::uint32_t first, const Matrix& logits,
              std::span<const std::uint32_t> greedy);
  PrefillOutcome close(const RunningPrefill& prefill);
  VerifiedPath close(const RunningDraft& draft, const Matrix& logits,
                     std::span<const std::uint32_t> greedy);
  VerifiedPath match(const RunningDraft& draft, const Matrix& logits,
                     std::span<const std::uint32_t> greedy);
  // Chooses the token at `position` from that row's logits.
  // Requires  answer_ if the constraint needs it
  std::uint32_t choose(const Matrix& logits, std::span<const std::uint32_t> greedy,
                       std::uint32_t row, std::uint32_t position);
  // Returns the logits of `row` after the constraint; logits_row_ keeps the unmodified ones.
  // Requires  answer_ if the constraint needs it
  std::span<const float> filtered(const Matrix& logits, std::uint32_t row);
  // Appends log probabilities from logits_row_ if requested.
  void tell(std::uint32_t chosen);
  // True if `next` after answer_ completes a stop string.
  bool stops_with(std::uint32_t next);
  // Sets answer_ to the answer's tokens up to `end`, followed by the path to that tree row.
  void set_answer(std::uint32_t end, const DraftTree* tree, std::uint32_t row);
  bool in_vocabulary(const DraftTree& tree) const;

  Decoder& decoder_;
  std::uint32_t context_count_;
  std::function<bool(std::uint32_t)> is_end_;
  KvCache cache_;
  std::vector<std::uint32_t> tokens_;
  std::uint32_t given_count_ = 0;  // leading tokens_ given by the client; the target chose the rest
  std::optional<Hashed> hashed_;   // last result of hash_of(), while its tokens are unchanged
  Sampler sampler_{SamplingParams{}};
  std::shared_ptr<ConstraintFilter> filter_;
  std::vector<std::uint32_t> answer_;  // tokens before the one being chosen
  Finish finish_ = Finish::none;
  std::variant<std::monostate, RunningPrefill, RunningDraft> request_;
  std::uint32_t checkpoint_ = 0;                    // the deepest known one of the text
  std::optional<std::uint32_t> next_checkpoint_{};  // of the prompt

  // Rows of the running pass.
  std::vector<std::uint32_t> rows_;
  std::vector<std::uint32_t> positions_;
  std::vector<AncestorMask> masks_;
  std::uint32_t first_deciding_ = 0;
  std::uint32_t searched_max_ = kSearchedPathMax;
  std::vector<float> logits_row_;
  std::vector<float> filtered_row_;
  std::uint32_t logprobs_per_token_ = 0;
  std::vector<Logprob> logprobs_;
  ProbeAnswer probe_answer_;
};

}  // namespace edgedraft::server
