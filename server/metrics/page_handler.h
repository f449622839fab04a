#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "shared/net/http/http_server.h"

namespace edgedraft::server {

// Page for a path; empty if there is none. Called on the HTTP server's thread.
using Pages = std::function<std::optional<HttpAnswer>(std::string_view path)>;

// Serves small monitoring pages: GET and HEAD only.
HttpServer::Handler page_handler(Pages pages);

}  // namespace edgedraft::server
