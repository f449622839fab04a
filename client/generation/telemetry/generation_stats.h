#pragma once

#include <cstdint>
#include <string>

#include "shared/base/clock.h"
#include "shared/drafting/drafter.h"

namespace edgedraft::client {

// Counts of one answer.
struct GenerationStats {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t reused_tokens = 0;  // prompt tokens that the conversation held already
  std::uint32_t tokens = 0;         // answer length, including its end token
  std::uint32_t cycles = 0;         // verdicts of runs
  std::uint32_t cycle_tokens = 0;   // accepted tokens and the target's own
  std::uint32_t target_calls = 0;   // cycles, prompts and resyncs
  std::uint32_t drafted = 0;        // by device and server
  std::uint32_t accepted = 0;
  PredictionCounts prediction{};
  std::uint32_t streamed_tokens = 0;
  std::string streamed_because;  // reason of the last decision to stream; empty: none
  // The device's last mode in a run, its predicted rate, and the reason.
  std::string overlap;
  double predicted_tokens_per_second = 0.0;  // 0: not predicted
  std::string overlap_because;
  std::uint32_t offline_tokens = 0;
  std::uint32_t rewritten_tokens = 0;
  std::uint32_t resyncs = 0;
  std::uint32_t context_count = 0;  // server's context length; 0: unknown
  Duration elapsed{};
  Duration first_token_elapsed{};
  Duration drafting{};
  Duration waiting{};

  // Adds the counts of another answer.
  GenerationStats& operator+=(const GenerationStats& other) {
    prompt_tokens += other.prompt_tokens;
    reused_tokens += other.reused_tokens;
    tokens += other.tokens;
    cycles += other.cycles;
    cycle_tokens += other.cycle_tokens;
    target_calls += other.target_calls;
    drafted += other.drafted;
    accepted += other.accepted;
    prediction.proposed += other.prediction.proposed;
    prediction.accepted += other.prediction.accepted;
    offline_tokens += other.offline_tokens;
    rewritten_tokens += other.rewritten_tokens;
    resyncs += other.resyncs;
    elapsed += other.elapsed;
    first_token_elapsed += other.first_token_elapsed;
    drafting += other.drafting;
    waiting += other.waiting;
    streamed_tokens += other.streamed_tokens;
    if (!other.streamed_because.empty()) streamed_because = other.streamed_because;
    return *this;
  }
  // Mean tokens per cycle, including the target's own; 1 for plain decoding.
  double acceptance_length() const {
    return cycles == 0 ? 1.0 : static_cast<double>(cycle_tokens) / cycles;
  }
};

}  // namespace edgedraft::client
