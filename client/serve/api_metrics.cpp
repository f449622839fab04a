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
  prediction_accepted += stats.prediction.accepted;
  prediction_rejected += stats.prediction.rejected();
  target_passes += stats.target_calls;
}

std::string metrics_text(const ApiCounters& counters, const Conversations& conversations,
                         const MemoryMeter* drafters, std::uint64_t mapped_bytes) {
  MetricsText out("edgedraft_client:");
  out.counter("requests_total", "HTTP requests", counters.requests);
  out.counter("requests_refused_total", "HTTP requests refused", counters.refused);
  out.counter("answers_total", "Finished answers", counters.answers);
  out.counter("prompt_tokens_total", "Prompt tokens", counters.prompt_tokens);
  out.counter("prompt_tokens_cached_total", "Prompt tokens known from the conversation",
              counters.reused_tokens);
  out.counter("generation_tokens_total", "Answer tokens", counters.tokens);
  out.counter("offline_tokens_total", "Answer tokens written without the server",
              counters.offline_tokens);
  out.counter("rewritten_tokens_total", "Offline tokens corrected by the server",
              counters.rewritten_tokens);
  out.counter("spec_decode_num_draft_tokens_total", "Draft tokens", counters.drafted);
  out.counter("spec_decode_num_accepted_tokens_total", "Draft tokens accepted", counters.accepted);
  out.counter("prediction_tokens_accepted_total", "Draft tokens of `prediction` accepted",
              counters.prediction_accepted);
  out.counter("prediction_tokens_rejected_total", "Draft tokens of `prediction` rejected",
              counters.prediction_rejected);
  out.counter("target_passes_total", "Passes of the target", counters.target_passes);
  out.gauge("conversations_open", "Conversations held in memory", conversations.open_count());
  out.gauge("requests_processing", "Answers in progress", conversations.busy_count());
  out.gauge("requests_deferred", "Prompts waiting for a conversation",
            conversations.waiting_count());
  if (drafters != nullptr) {
    out.gauge("memory_held_bytes", "Memory held by drafters", drafters->held());
    out.gauge("memory_peak_bytes", "Peak memory held by drafters", drafters->peak());
    if (drafters->is_limited()) {
      out.gauge("memory_limit_bytes", "Memory limit of drafters", drafters->limit());
    }
    out.gauge("mapped_bytes", "Size of mapped drafter files", mapped_bytes);
  }
  return out.take();
}

}  // namespace edgedraft::client
