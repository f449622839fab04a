#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "shared/protocol/target_link.h"

namespace edgedraft::testing {

// A link that is online, returns the test's events, and records the requests it receives.
class ScriptedLink final : public TargetLink {
 public:
  Result<void> send(TargetRequest request) override {
    sent.push_back(std::move(request));
    return boost::system::in_place_value;
  }
  Result<ClientEvent> wait_event(Instant) override {
    if (told.empty()) return Error{Errc::timed_out, "nothing came"};
    Result<ClientEvent> event = std::move(told.front());
    told.pop_front();
    return event;
  }
  LinkState state() const override { return LinkState::online; }
  LinkStats stats() const override { return {}; }
  bool backed_up() const override { return false; }
  void close() override {}

  std::deque<Result<ClientEvent>> told;
  std::vector<TargetRequest> sent;
};

}  // namespace edgedraft::testing
