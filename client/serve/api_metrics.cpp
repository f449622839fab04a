#include "client/serve/api_metrics.h"

#include "shared/net/http/metrics_text.h"

namespace edgedraft::client {

void ApiCounters::add(const GenerationStats& stats) {
  ++answers;
  prompt_tokens += stats.prompt_tokens;
  reused_tokens += stats.reused_tokens;
  tokens += stats.tokens;
  offline_tokens += stats.offline_tokens;
  rewritten_tokens += stats.rewritten_tokens;
  drafted += stats.drafted;
  accepted += stats.accepted;
  target_passes += stats.target_calls;
}

std::string metrics_text(const ApiCounters& counters, const Conversations& conversations,
                         const MemoryMeter* drafters, std::uint64_t mapped_bytes) {
  MetricsText out("edgedraft_client:");
  out.counter("requests_total", "HTTP requests", counters.requests);
  out.counter("requests_refused_total", "of them: refused", counters.refused);
  out.counter("answers_total", "Answers that ended", counters.answers);
  out.counter("prompt_tokens_total", "Tokens of prompts", counters.prompt_tokens);
  out.counter("prompt_tokens_cached_total", "of them: known from the conversation",
              counters.reused_tokens);
  out.counter("generation_tokens_total", "Tokens of answers", counters.tokens);
  out.counter("offline_tokens_total", "Tokens written without the server", counters.offline_tokens);
  out.counter("rewritten_tokens_total", "of them: corrected", counters.rewritten_tokens);
  out.counter("spec_decode_num_draft_tokens_total", "Tokens drafted", counters.drafted);
  out.counter("spec_decode_num_accepted_tokens_total", "of them: accepted", counters.accepted);
  out.counter("target_passes_total", "Answers of the target", counters.target_passes);
  out.gauge("conversations_open", "Conversations with memory", conversations.open_count());
  out.gauge("requests_processing", "Answers being written", conversations.busy_count());
  out.gauge("requests_deferred", "Prompts in line", conversations.waiting_count());
  if (drafters != nullptr) {
    out.gauge("memory_held_bytes", "Memory that drafters hold", drafters->held());
    out.gauge("memory_peak_bytes", "The most that they held at once", drafters->peak());
    if (drafters->is_limited()) {
      out.gauge("memory_limit_bytes", "The most that they may hold", drafters->limit());
    }
    out.gauge("mapped_bytes", "Files that they are read from", mapped_bytes);
  }
  return out.take();
}

}  // namespace edgedraft::client
