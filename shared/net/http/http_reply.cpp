#include "shared/net/http/http_reply.h"

#include <utility>

#include "shared/net/http/http_reply_state.h"

namespace edgedraft {

struct HttpReply::Owner {
  explicit Owner(std::shared_ptr<State> s) : state(std::move(s)) {}
  ~Owner() { state->abandoned(); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  std::shared_ptr<State> state;
};

HttpReply::HttpReply(std::shared_ptr<State> state)
    : owner_(std::make_shared<Owner>(std::move(state))) {}

HttpReply::State& HttpReply::state() const {
  return *owner_->state;
}

void HttpReply::send(HttpAnswer answer) {
  state().put_whole(std::move(answer));
}

void HttpReply::begin(HttpAnswer head, Duration quiet_max, std::string filler) {
  {
    const std::scoped_lock lock(state().mutex);
    state().quiet_max = quiet_max;
    state().filler = std::move(filler);
  }
  std::string body = std::exchange(head.body, {});
  state().put({.head = std::move(head), .body = std::move(body)});
}

void HttpReply::write(std::string part) {
  state().put({.head = std::nullopt, .body = std::move(part)});
}

void HttpReply::end() {
  state().put({.head = std::nullopt, .body = {}, .last = true});
}

std::size_t HttpReply::backlog_bytes() const {
  const std::scoped_lock lock(state().mutex);
  return state().backlog;
}

bool HttpReply::gone() const {
  const std::scoped_lock lock(state().mutex);
  return state().gone;
}

void HttpReply::on_gone(std::function<void(HttpGone)> act) {
  {
    const std::scoped_lock lock(state().mutex);
    if (!state().gone) {
      state().on_gone = std::move(act);
      return;
    }
  }
  act(state().how_gone());
}

}  // namespace edgedraft
