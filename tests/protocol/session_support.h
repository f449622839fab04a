#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include "shared/protocol/client_protocol.h"
#include "shared/protocol/server_protocol.h"
#include "tests/protocol/support.h"
#include "tests/protocol/taken_messages.h"
#include "tests/support/hint_nodes.h"

namespace edgedraft {

using namespace std::chrono_literals;

inline const Instant kStart = Instant() + 1000s;

// Rows of 8 values with two scales.
inline wire::Welcome small_welcome() {
  wire::Welcome welcome{.agent = "test", .model = "toy"};
  welcome.session.fill(std::byte{42});
  welcome.context_count = 100;
  welcome.nodes_max = 8;
  welcome.scale_groups = {5, 3};
  return welcome;
}

inline ActivationLayout small_layout() {
  return ActivationLayout(small_welcome().scale_groups);
}

// Rows that encode their position: value j of position p is p + j / 8.
inline std::vector<float> rows_of(std::uint32_t first, std::uint32_t count) {
  std::vector<float> rows;
  for (std::uint32_t p = first; p < first + count; ++p) {
    for (std::uint32_t j = 0; j < small_layout().cols(); ++j) {
      rows.push_back(static_cast<float>(p) + static_cast<float>(j) / 8);
    }
  }
  return rows;
}

inline Bytes packed_rows(std::uint32_t first, std::uint32_t count) {
  return quantize_rows(small_layout(), rows_of(first, count));
}

inline wire::Activations chunk_of(std::uint32_t round, std::uint32_t first, std::uint32_t count) {
  return compress_activations(round, first, count, packed_rows(first, count), wire::Codec::gzip);
}

inline wire::Prefill prompt_of(std::uint32_t count, std::uint32_t round = 0,
                               std::uint32_t base_length = 0) {
  std::vector<std::uint32_t> ids(count);
  std::iota(ids.begin(), ids.end(), 100u);
  return {.round = round, .base_length = base_length, .tokens = ids};
}

// Complete hints of a run under lockstep: each node is the child of the one before.
inline wire::Hints chain_of(std::uint32_t round, std::uint32_t position, std::uint32_t count) {
  std::vector<std::uint32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 200u);
  return {
      .round = round, .complete = true, .position = position, .nodes = testing::hint_chain(tokens)};
}

inline const wire::RunTerms kLockstep{.credit = 60, .rows = true, .hold = wire::Hold::lockstep};

// A verdict under lockstep that accepts `accepted` nodes after `base_length` tokens.
inline wire::Verdict accepting(std::uint32_t round, std::uint32_t base_length,
                               std::uint32_t accepted) {
  return {.round = round,
          .length = base_length + accepted + 1,
          .next = 7,
          .tokens = std::vector<std::uint32_t>(accepted, 200),
          .activations = packed_rows(base_length - 1, accepted + 1)};
}

// One end of a connection that receives what the test sends.
template <class Protocol>
class ProtocolTest : public ::testing::Test {
 protected:
  explicit ProtocolTest(Protocol protocol) : protocol_(std::move(protocol)) {}

  Result<void> hear(const wire::Message& message) {
    return protocol_.receive(now_, wire::encode(outgoing(message)));
  }

  Errc code_after(const wire::Message& message) {
    const Result<void> heard = hear(message);
    return heard ? Errc::cancelled : heard.error().code;
  }

  template <class Event>
  Event expect_event() {
    auto event = protocol_.next_event();
    if (!event || !std::holds_alternative<Event>(*event)) {
      ADD_FAILURE() << "unexpected event, or none";
      return {};
    }
    return std::get<Event>(*std::move(event));
  }

  Instant now_ = kStart;
  Protocol protocol_;
};

}  // namespace edgedraft
