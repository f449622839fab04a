#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "shared/base/error.h"
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
};

struct PrefillOutcome {
  std::uint32_t accepted_count = 0;  // of the provisional tokens
  std::uint32_t next = 0;
  Finish finish = Finish::none;
};

// One sequence on the target: its tokens, their cache, and the law by which the next one is drawn.
//
// Between calls tokens() holds every verified token and, last, the root: decided but not yet run,
// so that valid_count() = tokens().size() - 1 positions have keys and values.
class TargetSession {
 public:
  // Requires  decoder outlives the session; context_count <= decoder.positions_max()
  TargetSession(Decoder& decoder, std::uint32_t context_count,
                std::function<bool(std::uint32_t)> is_end);

  std::span<const std::uint32_t> tokens() const { return tokens_; }
  std::uint32_t valid_count() const { return cache_.length(); }
  const KvCache& cache() const { return cache_; }
  // Tokens and tree nodes that the last prefill() or verify() ran, a row each.
  std::uint32_t rows_run() const { return rows_run_; }
  std::uint32_t context_count() const { return context_count_; }

  // Errors    protocol      base_count beyond the session, no token at all, a token the vocabulary
  //                         lacks, more provisional tokens than tokens, or no given token before
  //                         them
  //           context_full  more tokens than the context takes with one to follow
  // A failed call leaves the session as it was.
  Result<PrefillOutcome> prefill(const PrefillRequest& request);

  // Checks a tree below the root in one pass. A tree without nodes is a step of plain decoding.
  // Errors    protocol  before the first prefill, after the end, or for a token the vocabulary
  // lacks
  Result<VerifiedPath> verify(const DraftTree& tree);

 private:
  Result<void> check(const PrefillRequest& request) const;
  // Runs the tokens behind the cache and verifies those from `given_count` on.
  PrefillOutcome run(std::uint32_t given_count);
  void load_choices(std::uint32_t first_row, std::uint32_t count);
  std::uint32_t choose(std::uint32_t row, std::uint32_t position);
  bool in_vocabulary(std::span<const std::uint32_t> tokens) const;

  Decoder& decoder_;
  std::uint32_t context_count_;
  std::function<bool(std::uint32_t)> is_end_;
  KvCache cache_;
  std::vector<std::uint32_t> tokens_;
  Sampler sampler_{SamplingParams{}};
  Finish finish_ = Finish::none;
  std::uint32_t rows_run_ = 0;

  // The last pass's rows to choose from: their tokens at temperature 0, else their logits.
  Matrix logits_;
  std::vector<std::uint32_t> greedy_;
  std::vector<float> row_;
};

}  // namespace edgedraft
