#include "client/generation/telemetry/generation_stats.h"

namespace edgedraft::client {

GenerationStats& GenerationStats::operator+=(const GenerationStats& other) {
  prompt_tokens += other.prompt_tokens;
  reused_tokens += other.reused_tokens;
  tokens += other.tokens;
  cycles += other.cycles;
  cycle_tokens += other.cycle_tokens;
  target_calls += other.target_calls;
  drafted += other.drafted;
  accepted += other.accepted;
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

}  // namespace edgedraft::client
