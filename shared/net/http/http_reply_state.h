#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "shared/base/check.h"
#include "shared/net/http/http_reply.h"

namespace edgedraft {

// Outlives the connection and the server: after cut_off() it touches neither.
struct HttpReply::State {
  struct Part {
    std::optional<HttpAnswer> head;  // absent after the first part
    std::string body;
    bool whole = false;
    bool last = false;
  };

  std::mutex mutex;
  std::deque<Part> parts;
  std::size_t backlog = 0;
  bool begun = false;
  bool ended = false;
  bool gone = false;
  bool stalled = false;  // gone because the client stopped reading
  Duration quiet_max = Duration::max();
  std::string filler;
  std::function<void(HttpGone)> on_gone;
  std::function<void()> wake;  // the connection's coroutine; empty once it is cut off
  std::function<HttpAnswer(unsigned status, const std::string& what)> error_page;

  void put(Part part) {
    const std::scoped_lock lock(mutex);
    put_locked(std::move(part));
  }
  void put_locked(Part part) {
    EDGEDRAFT_CHECK(!ended && begun != part.head.has_value());
    begun = true;
    ended = part.last;
    if (!wake) return;
    backlog += part.body.size();
    parts.push_back(std::move(part));
    wake();
  }
  void put_whole(HttpAnswer answer) {
    std::string body = std::exchange(answer.body, {});
    put({.head = std::move(answer), .body = std::move(body), .whole = true, .last = true});
  }
  // The last reply handle was dropped without an answer.
  void abandoned() {
    const std::scoped_lock lock(mutex);
    if (ended || !wake) return;
    if (begun) {
      put_locked({.head = std::nullopt, .body = {}, .last = true});
      return;
    }
    HttpAnswer answer = error_page(500, "the server did not answer");
    std::string body = std::exchange(answer.body, {});
    put_locked({.head = std::move(answer), .body = std::move(body), .whole = true, .last = true});
  }
  std::optional<Part> take() {
    const std::scoped_lock lock(mutex);
    if (parts.empty()) return std::nullopt;
    Part part = std::move(parts.front());
    parts.pop_front();
    return part;
  }
  void taken(std::size_t bytes) {
    const std::scoped_lock lock(mutex);
    backlog -= bytes;
  }
  bool is_cut_off() {
    const std::scoped_lock lock(mutex);
    return !wake;
  }
  // The client has left or has its whole answer.
  void cut_off() {
    std::function<void(HttpGone)> tell;
    {
      const std::scoped_lock lock(mutex);
      wake = nullptr;
      parts.clear();
      if (ended || gone) return;
      gone = true;
      tell = std::exchange(on_gone, nullptr);
    }
    if (tell) tell(how_gone());
  }
  HttpGone how_gone() const { return stalled ? HttpGone::stalled : HttpGone::left; }
};

}  // namespace edgedraft
