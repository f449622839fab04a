#pragma once

#include <string>
#include <utility>

#include "client/serve/answer/outlet.h"
#include "shared/base/clock.h"
#include "shared/net/http/http_message.h"
#include "shared/net/http/http_reply.h"

namespace edgedraft::client {

// Backlog of events beyond which a client is disconnected.
inline constexpr std::size_t kStreamBacklogMax = 4u << 20;

// Head of a stream of server-sent events, with additional `headers`.
inline HttpAnswer event_stream_head(const HttpHeaders& headers) {
  // Asks proxies not to buffer the answer.
  HttpAnswer head{
      .content_type = "text/event-stream", .body = {}, .headers = {{"X-Accel-Buffering", "no"}}};
  head.add(headers);
  return head;
}

// Interval of comments in a silent stream, so that proxies keep the connection open.
inline constexpr Duration kKeepAlive = std::chrono::seconds(10);
inline constexpr const char* kKeepAliveComment = ": keep-alive\n\n";

// The connection of the request.
class DirectOutlet final : public Outlet {
 public:
  // `headers` are added to every answer.
  DirectOutlet(HttpReply reply, HttpHeaders headers)
      : reply_(std::move(reply)), headers_(std::move(headers)) {}

  void answer(HttpAnswer answer) override {
    answer.add(headers_);
    reply_.send(std::move(answer));
  }
  void begin(const HttpHeaders& headers = {}) override {
    HttpAnswer head = event_stream_head(headers_);
    head.add(headers);
    reply_.begin(std::move(head), kKeepAlive, kKeepAliveComment);
  }
  void write(std::string events) override { reply_.write(std::move(events)); }
  void end() override { reply_.end(); }
  bool is_stuck() const override { return reply_.backlog_bytes() > kStreamBacklogMax; }

 private:
  HttpReply reply_;
  HttpHeaders headers_;
};

}  // namespace edgedraft::client
