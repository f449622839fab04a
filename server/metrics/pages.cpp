#include "server/metrics/pages.h"

#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "shared/net/http/metrics_text.h"

namespace edgedraft::server {
namespace {

HttpAnswer answer_to(const HttpRequest& request, const Pages& pages) {
  if (request.method != "GET" && request.method != "HEAD") {
    HttpAnswer answer = HttpServerOptions::plain_error(405, "only GET and HEAD are allowed");
    answer.headers = {{"Allow", "GET, HEAD"}};
    return answer;
  }
  auto page = pages(request.path);
  return page ? *std::move(page)
              : HttpServerOptions::plain_error(
                    404, "not found; the pages are /metrics, /health and /ready");
}

constexpr std::array<std::string_view, kRefusals> kRefusalNames = {
    "queue_full", "no_room",  "context_full", "session_unknown", "invalid",
    "device",     "deadline", "fault",        "grammars",        "quota"};
constexpr std::array<std::string_view, kHintFates> kHintFateNames = {
    "taken", "passed", "contradicted", "unknown", "evicted"};
constexpr std::array<std::string_view, kRejections> kRejectionNames = {"tls", "tls_timeout",
                                                                       "unauthorized", "mismatch"};
constexpr std::array<std::string_view, kBadFrames> kBadFrameNames = {"too_large", "malformed",
                                                                     "protocol", "version"};

void counters(MetricsText& e, const char* name, const char* help, const char* label,
              std::span<const std::string_view> values, std::span<const Counter> counts) {
  e.begin(name, "counter", help);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    e.sample(name, MetricsText::label(label, values[i]), counts[i].value());
  }
}

void series(MetricsText& e, const std::string& name, const std::string& labels,
            const Histogram& histogram) {
  const std::string before = labels.empty() ? "" : labels + ",";
  std::uint64_t count = 0;
  for (std::size_t i = 0; i <= histogram.bounds().size(); ++i) {
    count += histogram.count(i);
    const std::string bound =
        i < histogram.bounds().size() ? MetricsText::text_of(histogram.bounds()[i]) : "+Inf";
    e.sample(name + "_bucket", before + MetricsText::label("le", bound), count);
  }
  e.sample(name + "_sum", labels, histogram.sum());
  e.sample(name + "_count", labels, count);
}

void render_requests(MetricsText& e, const Metrics& m) {
  const std::uint64_t open = m.requests_open.value();
  const std::uint64_t running = std::min(m.requests_running.value(), open);
  const std::uint64_t paused = std::min(m.requests_paused.value(), open - running);
  e.gauge("num_requests_running", "Requests in the current pass.", running);
  const std::uint64_t held = std::min(m.requests_held.value(), open - running - paused);
  e.gauge("num_requests_waiting", "Requests waiting for a pass.", open - running - paused - held);
  e.counter("prompt_tokens_total", "Prompt tokens received from clients.", m.prompt_tokens.value());
  e.counter("generation_tokens_total", "Tokens sent to clients.", m.generated_tokens.value());
  e.counter("spec_decode_num_drafts_total", "Drafts verified, not counting empty ones.",
            m.drafts.value());
  e.counter("spec_decode_num_draft_tokens_total", "Tokens in verified drafts.",
            m.draft_tokens.value());
  e.counter("spec_decode_num_accepted_tokens_total", "Draft tokens accepted.",
            m.accepted_tokens.value());
  e.counter("spec_decode_probe_rows_total",
            "Rows of passes that probe the target for later drafts (--speculate).",
            m.probe_rows.value());
  e.counter("spec_decode_steps_without_drafter_total",
            "Steps without server drafting because no memory was left for a drafter.",
            m.steps_without_drafter.value());
  const std::string per_position = "spec_decode_num_accepted_tokens_per_pos_total";
  e.begin(per_position, "counter", "Draft tokens accepted, by depth in the draft from 0.");
  for (std::size_t i = 0; i < Metrics::kPositions; ++i) {
    e.sample(per_position, MetricsText::label("position", std::to_string(i)),
             m.accepted_at[i].value());
  }
  counters(e, "hints_total", "Hints received, by outcome.", "fate", kHintFateNames, m.hints);
  e.begin("time_to_first_token_seconds", "histogram",
          "Time from a prompt's arrival to its first token.");
  series(e, "time_to_first_token_seconds", {}, m.time_to_first_token);
  e.begin("inter_token_latency_seconds", "histogram",
          "Time between two verdicts of a session, divided by the later one's tokens.");
  series(e, "inter_token_latency_seconds", {}, m.inter_token_latency);
  e.begin("round_seconds", "histogram",
          "Time of a request before its first pass (queue) and in passes (verify).");
  series(e, "round_seconds", R"(phase="queue")", m.queue_time);
  series(e, "round_seconds", R"(phase="verify")", m.verify_time);
  counters(e, "requests_refused_total", "Requests refused, by reason.", "reason", kRefusalNames,
           m.refusals);
}

void render_passes(MetricsText& e, const Metrics& m) {
  e.counter("passes_total", "Forward passes of the target.", m.passes.value());
  e.begin("pass_rows", "histogram", "Rows per pass.");
  series(e, "pass_rows", {}, m.pass_rows);
  e.begin("pass_seconds", "histogram", "Time per pass.");
  series(e, "pass_seconds", {}, m.pass_time);
  e.counter("device_failures_total", "Device failures.", m.device_failures.value());
  const bool works = m.health.view().device == Health::Device::works;
  e.gauge("device_up", "1 while the device works.", works ? 1 : 0);
}

void render_sessions(MetricsText& e, const Metrics& m) {
  e.gauge("sessions", "Sessions held, including idle ones.", m.sessions.value());
  e.gauge("sessions_limit", "Maximum number of sessions.", m.sessions_max.value());
  const std::uint64_t limit = m.kv_bytes_max.value();
  e.gauge("kv_cache_bytes", "KV caches of sessions and prefixes kept for later prompts.",
          m.kv_bytes.value());
  e.gauge("kv_cache_bytes_limit", "Size of the KV cache pool.", limit);
  e.gauge("kv_cache_usage_perc", "Share of the KV cache pool in use; 1 means 100 percent.",
          limit > 0 ? static_cast<double>(m.kv_bytes.value()) / static_cast<double>(limit) : 0.0);
  e.gauge("state_checkpoints", "Checkpoints of recurrent states kept for later prompts.",
          m.checkpoints.value());
  e.gauge("state_checkpoints_limit", "Checkpoints that the KV memory holds.",
          m.checkpoints_max.value());
  e.counter("prefix_cache_hit_tokens_total", "Prompt tokens whose keys and values were reused.",
            m.kv_tokens_reused.value());
  e.gauge("prompts_waiting", "Prompts waiting for memory.", m.prompts_waiting.value());
  e.counter("sessions_evicted_total", "Sessions evicted to make room for others.",
            m.evicted_sessions.value());
  e.begin("session_resume_total", "counter", "Attempts to resume a session, by result.");
  e.sample("session_resume_total", R"(result="resumed")", m.resumed_sessions.value());
  e.sample("session_resume_total", R"(result="unknown")", m.unknown_sessions.value());
}

void render_connections(MetricsText& e, const Metrics& m, const ListenerStats& listener) {
  e.gauge("connections", "Open connections.", listener.open);
  e.counter("connections_total", "TCP connections accepted.", listener.accepted);
  e.counter("connections_over_limit_total",
            "Connections closed at once because of --max-connections.", listener.over_limit);
  e.counter("connections_failed_total", "Connections closed at once because of a server failure.",
            listener.failed);
  counters(e, "connections_rejected_total",
           "Connections ended before their first request, by reason.", "reason", kRejectionNames,
           m.rejections);
  counters(e, "frames_rejected_total", "Frames that ended their connection, by reason.", "reason",
           kBadFrameNames, m.bad_frames);
  e.begin("link_bytes_total", "counter", "Bytes on client sockets, including TLS.");
  e.sample("link_bytes_total", R"(dir="up")", listener.bytes_in);
  e.sample("link_bytes_total", R"(dir="down")", listener.bytes_out);
  e.counter("link_activation_bytes_total", "Compressed activations sent to clients.",
            m.activation_bytes.value());
  e.gauge("tls_certificate_expiry_timestamp_seconds", "Expiry time of the server certificate.",
          m.certificate_expiry.value());
}

HttpAnswer status_page(unsigned status, std::string_view word, const std::string& reason) {
  nlohmann::json body{{"status", word}};
  if (!reason.empty()) body["reason"] = reason;
  // Driver texts may have any encoding.
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  return {.status = status,
          .content_type = "application/json",
          .body = body.dump(-1, ' ', false, kReplace) + '\n'};
}

HttpAnswer health_page(const Health::View& health) {
  switch (health.device) {
    case Health::Device::works:
      return status_page(200, "ok", {});
    case Health::Device::failed:
      return status_page(503, "degraded", health.reason);
    case Health::Device::lost:
      return status_page(503, "degraded", "the device is lost: " + health.reason);
  }
  return status_page(503, "degraded", {});
}

HttpAnswer ready_page(const Health::View& health) {
  if (health.phase == Health::Phase::loading) return status_page(503, "loading", {});
  if (health.phase == Health::Phase::draining) return status_page(503, "draining", {});
  if (health.device == Health::Device::lost) return status_page(503, "device lost", health.reason);
  return status_page(200, "ready", {});
}

}  // namespace

HttpServer::Handler page_handler(Pages pages) {
  return [pages = std::move(pages)](const HttpRequest& request, HttpReply reply) {
    reply.send(answer_to(request, pages));
  };
}

std::string render_metrics(const Metrics& metrics, const ListenerStats& listener,
                           std::string_view version) {
  MetricsText e("edgedraft:");
  e.begin("build_info", "gauge", "Always 1; the version is a label.");
  e.sample("build_info", MetricsText::label("version", version), 1);
  render_requests(e, metrics);
  render_passes(e, metrics);
  render_sessions(e, metrics);
  render_connections(e, metrics, listener);
  return e.take();
}

std::optional<HttpAnswer> monitoring_page(const MonitoredServer& server, std::string_view path) {
  if (path == "/health") return health_page(server.metrics.health.view());
  if (path == "/ready") return ready_page(server.metrics.health.view());
  if (path != "/metrics") return std::nullopt;
  return HttpAnswer{.content_type = MetricsText::kContentType,
                    .body = render_metrics(server.metrics, server.listener(), server.version)};
}

}  // namespace edgedraft::server
