#include "server/metrics/page_handler.h"

#include <utility>

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

}  // namespace

HttpServer::Handler page_handler(Pages pages) {
  return [pages = std::move(pages)](const HttpRequest& request, HttpReply reply) {
    reply.send(answer_to(request, pages));
  };
}

}  // namespace edgedraft::server
