#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "server/metrics/metrics.h"
#include "shared/net/http/http_message.h"
#include "shared/net/http/http_server.h"
#include "shared/net/listener.h"

namespace edgedraft::server {

// Page for a path; empty if there is none. Called on the HTTP server's thread.
using Pages = std::function<std::optional<HttpAnswer>(std::string_view path)>;

// Serves small monitoring pages: GET and HEAD only.
HttpServer::Handler page_handler(Pages pages);

// Metrics in Prometheus text format. Names follow vLLM's and llama.cpp's after our prefix
// `edgedraft:`; docs/operations.md lists them. Labels have few, fixed values: no client data enters
// the text.
std::string render_metrics(const Metrics& metrics, const ListenerStats& listener,
                           std::string_view version);

struct MonitoredServer {
  const Metrics& metrics;                   // must outlive the pages
  std::function<ListenerStats()> listener;  // Threads: any
  std::string version;
};

// Page at `path`; empty if there is none.
//
//   /metrics  render_metrics()
//   /health   200 while the process works; 503 with the reason from a device failure until the next
//             successful pass
//   /ready    200 if new clients are welcome; 503 while the model loads, while the server drains,
//             and after the device is lost
std::optional<HttpAnswer> monitoring_page(const MonitoredServer& server, std::string_view path);

}  // namespace edgedraft::server
