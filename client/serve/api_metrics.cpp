#include "client/serve/api_metrics.h"

namespace edgedraft {

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
  std::string text;
  const auto add = [&text](const char* name, const char* type, const char* help,
                           std::uint64_t value) {
    const std::string full = std::string("edgedraft_client:") + name;
    text += "# HELP " + full + ' ' + help + "\n# TYPE " + full + ' ' + type + '\n' + full + ' ' +
            std::to_string(value) + '\n';
  };
  add("requests_total", "counter", "HTTP requests", counters.requests);
  add("requests_refused_total", "counter", "of them: refused", counters.refused);
  add("answers_total", "counter", "Answers that ended", counters.answers);
  add("prompt_tokens_total", "counter", "Tokens of prompts", counters.prompt_tokens);
  add("prompt_tokens_cached_total", "counter", "of them: known from the conversation",
      counters.reused_tokens);
  add("generation_tokens_total", "counter", "Tokens of answers", counters.tokens);
  add("offline_tokens_total", "counter", "Tokens written without the server",
      counters.offline_tokens);
  add("rewritten_tokens_total", "counter", "of them: corrected", counters.rewritten_tokens);
  add("spec_decode_num_draft_tokens_total", "counter", "Tokens drafted", counters.drafted);
  add("spec_decode_num_accepted_tokens_total", "counter", "of them: accepted", counters.accepted);
  add("target_passes_total", "counter", "Answers of the target", counters.target_passes);
  add("conversations_open", "gauge", "Conversations with memory", conversations.open_count());
  add("requests_processing", "gauge", "Answers being written", conversations.busy_count());
  add("requests_deferred", "gauge", "Prompts in line", conversations.waiting_count());
  if (drafters != nullptr) {
    const MemoryMeter& memory = *drafters;
    add("memory_held_bytes", "gauge", "Memory that drafters hold", memory.held());
    add("memory_peak_bytes", "gauge", "The most that they held at once", memory.peak());
    if (memory.is_limited()) {
      add("memory_limit_bytes", "gauge", "The most that they may hold", memory.limit());
    }
    add("mapped_bytes", "gauge", "Files that they are read from", mapped_bytes);
  }
  return text;
}

}  // namespace edgedraft
