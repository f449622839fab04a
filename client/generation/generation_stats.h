#pragma once

#include <cstdint>
#include <string>

#include "shared/base/clock.h"

namespace edgedraft {

// Counted over one answer.
struct GenerationStats {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t reused_tokens = 0;  // of them: those that the conversation held already
  std::uint32_t tokens = 0;         // of the answer, its end token included
  std::uint32_t cycles = 0;         // verdicts of runs
  std::uint32_t cycle_tokens = 0;   // tokens that they brought: accepted ones and the target's own
  std::uint32_t target_calls = 0;   // cycles, prompts and resyncs
  std::uint32_t drafted = 0;        // by the device and by the server
  std::uint32_t accepted = 0;
  std::uint32_t streamed_tokens = 0;
  std::string streamed_because;  // the last decision to stream; empty if there was none
  // What the device last did in a run, what that was predicted to bring, and why.
  std::string overlap;
  double predicted_tokens_per_second = 0.0;  // 0: not predicted
  std::string overlap_because;
  std::uint32_t offline_tokens = 0;
  std::uint32_t rewritten_tokens = 0;
  std::uint32_t resyncs = 0;
  std::uint32_t context_count = 0;  // tokens of the server's context; 0: not known
  Duration elapsed{};
  Duration first_token_elapsed{};
  Duration drafting{};
  Duration waiting{};

  // Adds the figures of another answer.
  GenerationStats& operator+=(const GenerationStats& other);
  // Mean tokens a cycle, the target's own included: plain decoding is 1.
  double acceptance_length() const {
    return cycles == 0 ? 1.0 : static_cast<double>(cycle_tokens) / cycles;
  }
};

}  // namespace edgedraft
