#pragma once

#include <string>
#include <utility>

#include "client/serve/outlet.h"
#include "shared/base/clock.h"
#include "shared/net/http/http_reply.h"

namespace edgedraft {

// How many bytes of events a client may be behind before it is let go.
inline constexpr std::size_t kStreamBacklogMax = 4u << 20;

// The head of a stream of server-sent events.
inline HttpAnswer event_stream_head() {
  // Proxies that gather an answer before they pass it on are asked not to.
  return {
      .content_type = "text/event-stream", .body = {}, .headers = {{"X-Accel-Buffering", "no"}}};
}

// Comments in a stream that is silent, so that nobody between the two takes it for dead.
inline constexpr Duration kKeepAlive = std::chrono::seconds(10);
inline constexpr const char* kKeepAliveComment = ": keep-alive\n\n";

// The connection that the request came by.
class DirectOutlet final : public Outlet {
 public:
  // `headers` are those of every answer.
  DirectOutlet(HttpReply reply, std::vector<std::pair<std::string, std::string>> headers)
      : reply_(std::move(reply)), headers_(std::move(headers)) {}

  void answer(HttpAnswer answer) override {
    answer.headers.insert(answer.headers.end(), headers_.begin(), headers_.end());
    reply_.send(std::move(answer));
  }
  void begin() override {
    HttpAnswer head = event_stream_head();
    head.headers.insert(head.headers.end(), headers_.begin(), headers_.end());
    reply_.begin(std::move(head), kKeepAlive, kKeepAliveComment);
  }
  void write(std::string events) override { reply_.write(std::move(events)); }
  void end() override { reply_.end(); }
  bool is_stuck() const override { return reply_.backlog_bytes() > kStreamBacklogMax; }

 private:
  HttpReply reply_;
  std::vector<std::pair<std::string, std::string>> headers_;
};

}  // namespace edgedraft
