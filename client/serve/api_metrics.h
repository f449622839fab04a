#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "client/generation/telemetry/generation_stats.h"
#include "client/serve/conversations.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft::client {

// Totals since the start.
struct ApiCounters {
  std::uint64_t requests = 0;
  std::atomic<std::uint64_t> refused = 0;  // some by headers, on another thread
  std::uint64_t answers = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t reused_tokens = 0;
  std::uint64_t tokens = 0;
  std::uint64_t offline_tokens = 0;
  std::uint64_t rewritten_tokens = 0;
  std::uint64_t drafted = 0;
  std::uint64_t accepted = 0;
  std::uint64_t prediction_accepted = 0;
  std::uint64_t prediction_rejected = 0;
  std::uint64_t target_passes = 0;

  // Adds an answer that has ended.
  void add(const GenerationStats& stats);
};

// Prometheus text format. `drafters`: the memory that they hold, null if there are none;
// `mapped_bytes`: size of their files.
std::string metrics_text(const ApiCounters& counters, const Conversations& conversations,
                         const MemoryMeter* drafters, std::uint64_t mapped_bytes);

}  // namespace edgedraft::client
