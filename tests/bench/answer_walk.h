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
#include "shared/base/error.h"
#include "shared/base/sampling_params.h"
#include "shared/drafting/drafter.h"
#include "shared/drafting/tap.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft::bench {

// How a drafter does along an answer of the target's that is known beforehand: what it proposes at
// each of its tokens, the tokens before being the target's.

struct Share {
  std::uint64_t hits = 0;
  std::uint64_t count = 0;

  void add(bool hit) {
    hits += hit ? 1 : 0;
    ++count;
  }
  // None if nothing was counted.
  std::optional<double> value() const {
    if (count == 0) return {};
    return static_cast<double>(hits) / static_cast<double>(count);
  }
};

// "0.863"; "-" and null where there is none.
std::string share_text(const std::optional<double>& share);
nlohmann::ordered_json share_json(const std::optional<double>& share);

// How often the likeliest proposal is the target's token.
struct Lag {
  Share with;
  Share without;  // at the same roots with a lag of 0
};
using LagCounts = std::map<std::uint32_t, Lag>;  // by the tokens after the newest activations

// The target's answer by plain decoding, of at most so many tokens, in its session.
Result<TargetSession> answer_plainly(ModelHost& host, const std::vector<std::uint32_t>& prompt,
                                     const SamplingParams& sampling, std::uint32_t tokens_max);

// An answer with the activations that a drafter would be sent of it, as the link's codec leaves
// them.
struct WalkedAnswer {
  std::vector<std::uint32_t> tokens;  // the prompt's first
  std::uint32_t prompt_count;
  std::vector<float> rows;  // of all tokens but the last; none without a tap
};
Result<WalkedAnswer> walked_answer(const TargetSession& session, std::uint32_t prompt_count,
                                   Tap* tap);

// Walks along the answer once with each of `lags` and once without; what each drafter saw is new.
// Without a tap the lags count as 0.
void count_lags(const std::function<std::unique_ptr<Drafter>()>& make_drafter,
                const WalkedAnswer& answer, std::span<const std::uint32_t> lags,
                const TreeShape& shape, LagCounts& counts);

// What a drafter writes alone, greedily, behind the first half of an answer: how many of its tokens
// are the target's, place by place, and how many are before the first that is not. Nothing if it
// cannot write.
struct WrittenAlone {
  Share right;
  std::vector<double> before_difference;  // a number per answer
};
void count_written_alone(Drafter& drafter, const WalkedAnswer& answer, WrittenAlone& counts);

}  // namespace edgedraft::bench
