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
#include "shared/base/logprob.h"
#include "shared/base/sha256.h"
#include "shared/constraints/answer_law.h"
#include "shared/runtime/decoder.h"
#include "shared/speculative/draft_tree.h"
#include "shared/speculative/sampling.h"
#include "shared/speculative/verification.h"

namespace edgedraft {

// Tokens to put behind the first `base_count` of a session.
struct PrefillRequest {
  std::uint32_t base_count;               // tokens of the session that stay; the rest is dropped
  std::span<const std::uint32_t> tokens;  // what follows them
  // The last `provisional_count` of `tokens` were written by a drafter alone. They are verified
  // like a draft; what follows the first difference is dropped. 0 where everything is given.
  std::uint32_t provisional_count = 0;
  SamplingParams sampling;
  std::shared_ptr<AnswerLaw> law{};  // that the answer keeps to; null: any
  // To be told of each token that is chosen: its own, then the likeliest's.
  std::uint32_t logprobs_per_token = 0;
};

struct PrefillOutcome {
  std::uint32_t accepted_count = 0;  // of the provisional tokens
  std::uint32_t next = 0;
  Finish finish = Finish::none;
};

using Outcome = std::variant<PrefillOutcome, VerifiedPath>;

// Rows of a pass that ask the target instead of proposing to it: what would follow these tokens?
// They stand below the session's root as a draft does, see their own ancestors alone, and none of
// them is ever accepted.
struct Probes {
  DraftTree rows;
  // The last so many rows are those that are asked, and what is told of each are so many of its
  // likeliest tokens.
  std::uint32_t asked_count = 0;
  std::uint32_t likeliest_count = 1;
  std::uint64_t id = 0;  // comes back with the answer

  bool empty() const { return rows.empty(); }
};

struct ProbeAnswer {
  std::uint64_t id = 0;
  // Shape [asked_count, likeliest_count]; those of a row likeliest first.
  std::vector<std::uint32_t> tokens{};
};

// One sequence on the target: its tokens, their cache, and the law by which the next one is drawn.
//
// Between requests tokens() holds every verified token and, last, the root: decided but not yet
// run, so that valid_count() = tokens().size() - 1 positions have keys and values.
//
// A request is begun, takes part in passes (run_pass) until one of them gives its outcome, and
// may be abandoned between two.
class TargetSession {
 public:
  static constexpr std::size_t kToldTokensMax = 256;
  // Tokens of a draft that are followed, and of a checked text that are chosen, in a pass at most
  // where choosing_searches(). Honest drafts are hardly longer.
  static constexpr std::uint32_t kSearchedPathMax = 16;

  // With memory of its own. Requires  decoder outlives the session; context_count <=
  // decoder.positions_max()
  TargetSession(Decoder& decoder, std::uint32_t context_count,
                std::function<bool(std::uint32_t)> is_end);
  // With a cache from a pool: before each pass the caller has to reserve() what it takes.
  TargetSession(Decoder& decoder, KvCache cache, std::uint32_t context_count,
                std::function<bool(std::uint32_t)> is_end);

  std::span<const std::uint32_t> tokens() const { return tokens_; }
  std::uint32_t valid_count() const { return cache_.length(); }
  const KvCache& cache() const { return cache_; }
  std::uint32_t context_count() const { return context_count_; }
  const std::shared_ptr<AnswerLaw>& law() const { return law_; }
  const SamplingParams& sampling() const { return sampler_.params(); }
  // token_hash() of the first `count` tokens. The last one is remembered, as clients may ask for it
  // as often as they like. Requires  count <= tokens().size()
  const Digest& hash_of(std::uint32_t count);

  // Errors    protocol      base_count beyond the session, no token at all, a token the vocabulary
  //                         lacks, more provisional tokens than tokens, or no given token before
  //                         them
  //           context_full  more tokens than the context takes with one to follow
  // A refused request leaves the session as it was. Requires  !busy()
  Result<void> begin(const PrefillRequest& request);
  // Whether it would be refused by a session of so many tokens.
  static Result<void> check(const PrefillRequest& request, std::size_t known_count,
                            std::uint32_t vocabulary_count, std::uint32_t context_count);
  // Checks a tree below the root in one pass. A tree without nodes is a step of plain decoding.
  // Probes take part in it and change nothing.
  // Errors    protocol  before the first prefill, after the end, or for a token the vocabulary
  // lacks
  // Requires  !busy(); of tree and probes together at most kTreeNodesMax nodes
  Result<void> begin(const DraftTree& tree, Probes probes = {});

  // The outcome of a request whose tokens are all provisional, if the session has chosen what they
  // are to be held against already: it then ends behind the first difference, and no pass is made.
  // Nothing if it has not, or by another law. What it had chosen beyond that goes into `rest`.
  // Requires  !busy()
  std::optional<PrefillOutcome> decided(const PrefillRequest& request,
                                        std::vector<std::uint32_t>& rest);

  // Whether a request has been begun that has no outcome yet.
  bool busy() const { return !std::holds_alternative<std::monostate>(request_); }
  // Rows that the request still has to run, probes included. A prompt may be run in parts, a draft
  // only whole.
  std::uint32_t pending_rows() const;
  // How many of these a pass takes: of a text that is checked no more than are chosen at once,
  // which is `searched_max` where choosing_searches().
  std::uint32_t rows_wanted(std::uint32_t searched_max = kSearchedPathMax) const;
  // Each choice takes a search of the vocabulary, or weighs or sorts all of it, on the thread that
  // all sessions share.
  bool choosing_searches() const;
  // The probes among all pending rows, which the request can do without.
  std::uint32_t probe_rows() const;
  void drop_probes();
  // What the last pass with probes told, until others are begun or a prompt is.
  const ProbeAnswer& probe_answer() const { return probe_answer_; }
  std::uint32_t vocabulary_count() const { return decoder_.config().vocabulary_count; }
  // Its choices are the likeliest tokens, whatever else the logits say.
  bool greedy() const { return sampler_.params().greedy() && !(law_ && law_->changes_logits()); }

  // The rows for the next pass, `rows_max` of them at most; they stay valid until finish_pass().
  // Where choosing_searches(), no more than `searched_max` tokens of a draft are followed, or of a
  // checked text chosen.
  // Requires  busy(), rows_max > 0 and, for a draft, rows_max >= pending_rows()
  SequenceRows begin_pass(std::uint32_t rows_max, std::uint32_t searched_max = kSearchedPathMax);
  // The first of these rows whose logits decide something, and all behind it; their number where
  // none does.
  std::uint32_t first_deciding_row() const { return first_deciding_; }
  // Takes in a pass: the logits of the deciding rows and, for a greedy session, their likeliest
  // tokens. Nothing where the prompt goes on.
  std::optional<Outcome> finish_pass(const Matrix& logits, std::span<const std::uint32_t> greedy);
  // Log probabilities of the last outcome's tokens, in order: of its last kToldTokensMax.
  std::vector<Logprob> take_logprobs() { return std::exchange(logprobs_, {}); }
  // Gives up the request. The session is then as after a prefill of what it holds: a draft leaves
  // no trace, of a prompt the part that was run and the root are dropped.
  void abandon();

  // --- memory from a pool ---

  // Slots that the request's rows are stored in, and all before them. Requires  busy()
  std::uint32_t slots_wanted() const;
  // Takes pages for them. False where the pool has too few; nothing has changed then.
  bool reserve() { return cache_.reserve(slots_wanted()); }
  // The tokens whose keys and values are there for good: neither a draft nor provisional.
  std::span<const std::uint32_t> settled_tokens() const;
  // In a prompt, the tokens whose rows decide nothing, and need not run where their keys and values
  // are known.
  std::span<const std::uint32_t> skippable_tokens() const;
  // Takes over pages of the first tokens' keys and values. Requires  a prompt, tokens as in
  // skippable_tokens()
  void adopt(std::span<const std::uint32_t> pages) { cache_.adopt(pages); }
  // Gives up all keys and values; the prompt then runs from its first token on.
  // Requires  a prompt, no pass yet
  void drop_cache();

  // A whole request, in passes of its own. Errors as of begin(). Requires  memory for it
  Result<PrefillOutcome> prefill(const PrefillRequest& request);
  Result<VerifiedPath> verify(const DraftTree& tree);

 private:
  struct RunningPrefill {
    std::uint32_t base_count;
    std::uint32_t given_count;  // tokens, of the session's, that are not provisional
    PrefillOutcome outcome;
  };
  struct RunningDraft {
    DraftTree tree;
    Probes probes;

    // The pass begins with the probes that are not asked: what they would be followed by nobody
    // wants to know. Behind them come root and tree, then the probes that are.
    std::uint32_t root_row() const { return probes.rows.node_count() - probes.asked_count; }
  };

  struct Hashed {
    std::uint32_t count;
    Digest hash;
  };

  // Drops all tokens after the first `count`.
  void keep_tokens(std::uint32_t count);
  // Rows, still to run, that come before the first that decides something.
  std::uint32_t given_rows(const RunningPrefill& prefill) const;
  Outcome run();
  SequenceRows rows_of(const RunningDraft& draft);
  void answer(const Probes& probes, const Matrix& asked);
  // Whether the outcome is known with the rows of this pass.
  bool decide(RunningPrefill& prefill, std::uint32_t first, const Matrix& logits,
              std::span<const std::uint32_t> greedy);
  PrefillOutcome close(const RunningPrefill& prefill);
  VerifiedPath close(const RunningDraft& draft, const Matrix& logits,
                     std::span<const std::uint32_t> greedy);
  VerifiedPath match(const RunningDraft& draft, const Matrix& logits,
                     std::span<const std::uint32_t> greedy);
  // The token at `position`, by the logits of that row.
  // Requires  answer_ if the law wants it
  std::uint32_t choose(const Matrix& logits, std::span<const std::uint32_t> greedy,
                       std::uint32_t row, std::uint32_t position);
  // That row's logits as the law leaves them; logits_row_ has them as they are.
  // Requires  answer_ if the law wants it
  std::span<const float> lawful(const Matrix& logits, std::uint32_t row);
  // Adds the log probabilities behind logits_row_, if they are wanted.
  void tell(std::uint32_t chosen);
  // Whether `next` completes a stop behind answer_.
  bool stops_with(std::uint32_t next);
  // answer_ becomes what stands between the answer's begin and `end`, and behind it the way to that
  // row of the tree.
  void set_answer(std::uint32_t end, const DraftTree* tree, std::uint32_t row);
  bool in_vocabulary(const DraftTree& tree) const;

  Decoder& decoder_;
  std::uint32_t context_count_;
  std::function<bool(std::uint32_t)> is_end_;
  KvCache cache_;
  std::vector<std::uint32_t> tokens_;
  std::uint32_t given_count_ = 0;  // of them, before those that the target has chosen
  std::optional<Hashed> hashed_;   // the last that hash_of() told, while its tokens are there
  Sampler sampler_{SamplingParams{}};
  std::shared_ptr<AnswerLaw> law_;
  std::vector<std::uint32_t> answer_;  // before the token that is being chosen
  Finish finish_ = Finish::none;
  std::variant<std::monostate, RunningPrefill, RunningDraft> request_;

  // The rows of the running pass.
  std::vector<std::uint32_t> rows_;
  std::vector<std::uint32_t> positions_;
  std::vector<AncestorMask> masks_;
  std::uint32_t first_deciding_ = 0;
  std::uint32_t searched_max_ = kSearchedPathMax;
  std::vector<float> logits_row_;
  std::vector<float> lawful_row_;
  std::uint32_t logprobs_per_token_ = 0;
  std::vector<Logprob> logprobs_;
  ProbeAnswer probe_answer_;
};

}  // namespace edgedraft
