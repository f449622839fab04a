#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "server/metrics/metrics.h"
#include "shared/net/http/http_message.h"
#include "shared/net/listener.h"

namespace edgedraft {

// The metrics in Prometheus' text format. Names follow vLLM's and llama.cpp's behind our prefix,
// `edgedraft:`; docs/operations.md lists them. Labels have few values, all of them ours: nothing
// that a client said is in the text.
std::string render_metrics(const Metrics& metrics, const ListenerStats& listener,
                           std::string_view version);

struct MonitoredServer {
  const Metrics& metrics;                   // outlives the pages
  std::function<ListenerStats()> listener;  // Threads: any
  std::string version;
};

// What a monitor gets at `path`; nothing where there is no such page.
//
//   /metrics  render_metrics()
//   /health   200 while the process works; 503 with the reason from a device's failure until a pass
//             succeeds
//   /ready    200 where new clients are welcome; 503 while the model is being loaded, while the
//             server drains, and when the device is lost
std::optional<HttpAnswer> monitoring_page(const MonitoredServer& server, std::string_view path);

}  // namespace edgedraft
