#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "shared/net/http/http_server.h"

namespace edgedraft {

// The page at a path; nothing if there is none. Called on the HTTP server's thread.
using Pages = std::function<std::optional<HttpAnswer>(std::string_view path)>;

// Gives monitors small pages: GET and HEAD alone.
HttpServer::Handler page_handler(Pages pages);

}  // namespace edgedraft
