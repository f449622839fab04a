#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client/generation/observer.h"
#include "shared/base/clock.h"
#include "shared/protocol/client_session.h"
#include "shared/protocol/target_link.h"

namespace edgedraft {

// A step of an answer, for telemetry: a cycle, a prompt or resync, a token written offline,
// or a change of state. Times on the device's clock but for those of `server`.
struct CycleRecord {
  enum class Kind : std::uint8_t { prompt, draft, resync, offline, state };
  Kind kind{};
  Duration at{};                    // since the answer was asked for; its tokens are shown then
  std::uint32_t tokens = 0;         // that became visible
  std::uint32_t answer_tokens = 0;  // of the answer so far

  Duration drafting{};    // growing the tree, or choosing a token offline
  Duration pack{};        // from the finished tree until the request was with the socket
  Duration round_trip{};  // from then, or from a run's verdict before, to the last byte
  Duration unpack{};      // from then until the rows were in the drafter's memory
  struct Server {         // on its clock
    std::uint32_t queue_us = 0;
    std::uint32_t verify_us = 0;
    std::uint32_t held_us = 0;   // it waited for hints
    std::uint32_t draft_us = 0;  // of its own drafting, before it waited for the pass
  } server;

  std::uint32_t rows = 0;  // of the target's pass: the root and nodes, or tokens of a prompt
  std::uint32_t accepted = 0;
  bool streamed = false;  // the server did not wait for the device
  LinkStats link;         // since the record before: bytes of what came in between are in here
  std::optional<LinkTimes::Tcp> tcp;

  ClientState state{};  // Kind::state: the new one, and why
  std::string why;
};

std::string_view to_string(CycleRecord::Kind kind);

}  // namespace edgedraft
