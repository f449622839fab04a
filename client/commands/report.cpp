#include "client/commands/report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "client/engine/memory_fit.h"
#include "client/json_line.h"
#include "shared/base/bytes.h"

namespace edgedraft::client {
namespace {

using nlohmann::ordered_json;

double per_second(const GenerationStats& stats) {
  return stats.elapsed > Duration::zero() ? stats.tokens / seconds(stats.elapsed) : 0.0;
}

ordered_json fingerprint(const std::optional<Digest>& digest) {
  return digest ? ordered_json(to_hex(*digest)) : ordered_json(nullptr);
}

ordered_json stats_json(const RunReport& report, std::uint64_t seed) {
  const GenerationStats& stats = report.stats;
  const LinkStats& link = report.link;
  return {
      {"prompt_tokens", stats.prompt_tokens},
      {"tokens", stats.tokens},
      {"cycles", stats.cycles},
      {"tau", stats.acceptance_length()},
      {"target_calls", stats.target_calls},
      {"drafted", stats.drafted},
      {"accepted", stats.accepted},
      {"accepted_prediction_tokens", stats.prediction.accepted},
      {"rejected_prediction_tokens", stats.prediction.rejected()},
      {"streamed_tokens", stats.streamed_tokens},
      {"streamed_because", stats.streamed_because},
      {"overlap", stats.overlap.empty() ? ordered_json() : ordered_json(stats.overlap)},
      {"overlap_because", stats.overlap_because},
      {"predicted_tokens_per_second", stats.predicted_tokens_per_second > 0.0
                                          ? ordered_json(stats.predicted_tokens_per_second)
                                          : ordered_json()},
      {"seconds", seconds(stats.elapsed)},
      {"tokens_per_second", per_second(stats)},
      {"time_to_first_token_s", seconds(stats.first_token_elapsed)},
      {"start_to_first_token_s", report.start_to_first_token
                                     ? ordered_json(seconds(*report.start_to_first_token))
                                     : ordered_json()},
      {"memory_held_bytes", report.memory.held_bytes},
      {"memory_peak_bytes", report.memory.peak_bytes},
      {"mapped_bytes", report.memory.mapped_bytes},
      {"drafting_seconds", seconds(stats.drafting)},
      {"energy_joules",
       report.energy_joules ? ordered_json(*report.energy_joules) : ordered_json()},
      {"waiting_seconds", seconds(stats.waiting)},
      {"bytes_up", link.bytes_up},
      {"bytes_down", link.bytes_down},
      {"activation_bytes_raw", link.traffic.activation_bytes_raw},
      {"activation_bytes_sent", link.traffic.activation_bytes_sent},
      {"pad_bytes_up", link.traffic.pad_bytes_out},
      {"pad_bytes_down", link.traffic.pad_bytes_in},
      {"offline_tokens", stats.offline_tokens},
      {"reconnects", link.reconnects},
      {"resyncs", stats.resyncs},
      {"rewritten_tokens", stats.rewritten_tokens},
      {"seed", seed},
  };
}

ordered_json config_json(const ReportedConfig& reported) {
  const ClientSettings& config = reported.config;
  const GenerationOptions& g = config.generation;
  ordered_json tree = nullptr;
  if (g.tree) {
    tree = {{"breadth", g.tree->breadth}, {"depth", g.tree->depth}, {"nodes", g.tree->nodes}};
  }
  return {
      {"server", config.server},
      {"drafter", reported.drafter},
      {"bundle", reported.bundle},
      {"drafter_reason", reported.drafter_reason},
      {"tap", reported.tap},
      {"tree", tree},
      {"device", reported.device},
      {"device_name", reported.device_name},
      {"device_reason", reported.device_reason},
      {"memory_limit_bytes", config.memory_limit == MemoryMeter::kUnlimited
                                 ? ordered_json()
                                 : ordered_json(config.memory_limit)},
      {"max_tokens", g.tokens_max},
      {"temperature", g.sampling.temperature},
      {"top_k", g.sampling.top_k},
      {"top_p", g.sampling.top_p},
      {"min_p", g.sampling.min_p},
      {"deadline_ms", milliseconds(g.deadline)},
      {"resync", g.resync == wire::ResyncPolicy::check ? "check" : "keep"},
      {"resync_wait_ms", milliseconds(g.resync_wait)},
      {"hold", g.hold ? to_string(*g.hold) : "auto"},
      {"pad", config.pads},
      {"fingerprints",
       {{"target", fingerprint(reported.target_fingerprint)},
        {"tokenizer", fingerprint(reported.tokenizer_fingerprint)},
        {"drafter", fingerprint(reported.drafter_fingerprint)}}},
  };
}

std::string bytes_text(std::uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} kB", size / 1e3);
  return fmt::format("{:.1f} MB", size / 1e6);
}

}  // namespace

std::string_view to_string(GenerationEnd end) {
  constexpr std::string_view kNames[] = {"end_token", "tokens_max", "context", "stop", "cancelled"};
  return kNames[static_cast<std::size_t>(end)];
}

std::string to_json(const RunReport& report, const ReportedConfig& reported) {
  ordered_json provenance = ordered_json::array();
  for (const Provenance p : report.provenance) provenance.push_back(to_string(p));
  return json_line({{"text", report.text},
                    {"tokens", report.tokens},
                    {"provenance", provenance},
                    {"finish", to_string(report.end)},
                    {"stats", stats_json(report, reported.config.generation.sampling.seed)},
                    {"config", config_json(reported)}});
}

std::string to_json(const Error& error) {
  return json_line({{"error", {{"code", to_string(error.code)}, {"message", error.message}}}});
}

std::string account(const RunReport& report) {
  const GenerationStats& stats = report.stats;
  std::string line;
  if (stats.drafted > 0) {
    line = fmt::format(
        "{} tokens in {} cycles (tau {:.2f}), {} target passes, {} of {} drafted accepted",
        stats.tokens, stats.cycles, stats.acceptance_length(), stats.target_calls, stats.accepted,
        stats.drafted);
    if (stats.prediction.proposed > 0) {
      line += fmt::format(", {} of {} from the prediction", stats.prediction.accepted,
                          stats.prediction.proposed);
    }
  } else {
    line = std::to_string(stats.tokens) + " tokens";
    if (stats.target_calls > 0) {
      line += ", " + std::to_string(stats.target_calls) + " target passes, nothing drafted";
    }
    if (!stats.streamed_because.empty()) line += " (" + stats.streamed_because + ")";
  }
  const bool is_private =
      !report.provenance.empty() && std::ranges::count(report.provenance, Provenance::private_) ==
                                        static_cast<std::ptrdiff_t>(report.provenance.size());
  const bool only_signed_in = is_private && stats.target_calls == 0;
  line += "; " + bytes_text(report.link.bytes_up) + " up, " + bytes_text(report.link.bytes_down) +
          (only_signed_in ? " down (sign-in only)" : " down");
  if (stats.tokens > 0) {
    line += fmt::format("; {:.1f} ms per token", milliseconds(stats.elapsed) / stats.tokens);
  }
  if (stats.offline_tokens > 0 && !is_private) {
    line += "; " + std::to_string(stats.offline_tokens) + " written offline, " +
            std::to_string(stats.rewritten_tokens) + " rewritten";
  }
  if (report.end == GenerationEnd::context) {
    const bool here =
        !report.provenance.empty() && report.provenance.back() != Provenance::verified;
    line += here ? "; cut at the end of the context of the drafter on this device"
                 : "; cut at the end of the context";
  }
  return line;
}

std::string memory_account(const RunReport& report) {
  std::string line = "drafter memory: " + mebibytes(report.memory.held_bytes) + " held, at most " +
                     mebibytes(report.memory.peak_bytes) + "; " +
                     mebibytes(report.memory.mapped_bytes) + " of mapped files";
  if (report.start_to_first_token) {
    line += fmt::format("; first token {:.2f} s after program start",
                        seconds(*report.start_to_first_token));
  }
  return line;
}

}  // namespace edgedraft::client
