#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client/generation/telemetry/observer.h"
#include "shared/base/clock.h"
#include "shared/protocol/client_protocol.h"
#include "shared/protocol/target_link.h"

namespace edgedraft::client {

// A step of an answer, for telemetry: a cycle, a prompt or resync, a token written offline, or a
// change of state. Times are on the device's clock, except those of `server`.
struct CycleRecord {
  enum class Kind : std::uint8_t { prompt, draft, resync, offline, state };
  Kind kind{};
  Duration at{};                    // since the request for the answer; its tokens are shown then
  std::uint32_t tokens = 0;         // made visible by this step
  std::uint32_t answer_tokens = 0;  // answer length so far

  Duration drafting{};    // growing the tree, or choosing a token offline
  Duration pack{};        // from the finished tree until the socket took the request
  Duration round_trip{};  // from then, or from a run's previous verdict, to the last byte
  Duration unpack{};      // from then until the drafter's memory held the rows
  struct Server {         // on its own clock
    std::uint32_t queue_us = 0;
    std::uint32_t verify_us = 0;
    std::uint32_t held_us = 0;   // waiting for hints
    std::uint32_t draft_us = 0;  // drafting on the server, before it waited for the pass
  } server;

  std::uint32_t rows = 0;  // rows in the target's pass: root and nodes, or prompt tokens
  std::uint32_t accepted = 0;
  bool streamed = false;  // the server did not wait for the device
  LinkStats link;         // since the previous record, including bytes between the two
  std::optional<LinkTimes::Tcp> tcp;

  ClientState state{};  // Kind::state: the new state and its reason
  std::string why;
};

inline std::string_view to_string(CycleRecord::Kind kind) {
  constexpr std::string_view kNames[] = {"prompt", "draft", "resync", "offline", "state"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace edgedraft::client
