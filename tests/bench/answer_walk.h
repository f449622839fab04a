#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/program/model_host.h"
#include "server/sessions/target_session.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/drafting/drafter.h"
#include "shared/drafting/tap.h"
#include "shared/speculative/tree_growth.h"
#include "shared/types/sampling_params.h"

namespace edgedraft::bench {
using namespace server;

// Measures a drafter along a known answer of the target: its proposals at each token, given the
// target's tokens before it.

struct Share {
  std::uint64_t hits = 0;
  std::uint64_t count = 0;

  void add(bool hit) {
    hits += hit ? 1 : 0;
    ++count;
  }
  // Empty if nothing was counted.
  std::optional<double> value() const {
    if (count == 0) return {};
    return static_cast<double>(hits) / static_cast<double>(count);
  }
};

// "0.863"; "-" and null for an empty share.
std::string share_text(const std::optional<double>& share);
nlohmann::ordered_json share_json(const std::optional<double>& share);

// How often the likeliest proposal is the target's token, and the time of drafting a tree.
struct Lag {
  Share with;
  Share without;  // at the same roots with a lag of 0
  Duration drafting{};
  std::uint64_t cycles = 0;  // trees that the time is of; the first of a walk, which reads the
                             // prompt, is not among them
  // Milliseconds per cycle; empty if none was timed.
  std::optional<double> milliseconds_per_cycle() const;
};
using LagCounts = std::map<std::uint32_t, Lag>;  // by tokens since the newest activations

// The target's answer by plain decoding, at most `tokens_max` tokens, in its session.
Result<TargetSession> answer_plainly(ModelHost& host, const std::vector<std::uint32_t>& prompt,
                                     const SamplingParams& sampling, std::uint32_t tokens_max);

// An answer with the activations that a drafter would receive, after the link's codec.
struct WalkedAnswer {
  std::vector<std::uint32_t> tokens;  // starting with the prompt's
  std::uint32_t prompt_count;
  std::vector<float> rows;  // rows of all tokens but the last; empty without a tap
};
Result<WalkedAnswer> walked_answer(const TargetSession& session, std::uint32_t prompt_count,
                                   Tap* tap);

// Walks along the answer once per entry of `lags` and once without lag, each time with a new
// drafter. Without a tap the lags count as 0. `now` measures the drafter's work.
void count_lags(const std::function<std::unique_ptr<Drafter>()>& make_drafter,
                const WalkedAnswer& answer, std::span<const std::uint32_t> lags,
                const TreeShape& shape, const std::function<Instant()>& now, LagCounts& counts);

// A drafter's greedy text after the first half of an answer, without the target. Counts tokens that
// match the target's at the same place, and tokens before the first mismatch. Empty if the drafter
// cannot write alone.
struct WrittenAlone {
  Share right;
  std::vector<double> before_difference;  // one entry per answer
};
void count_written_alone(Drafter& drafter, const WalkedAnswer& answer, WrittenAlone& counts);

}  // namespace edgedraft::bench
