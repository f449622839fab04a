#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/protocol/message.h"

namespace edgedraft::client {

// State of the server and its link.
struct ServerView {
  // The link.
  bool signed_in = false;
  std::optional<Error> link_error{};  // why it is down; empty if not reported
  bool link_closed = false;           // for a reason that a retry on this connection does not cure

  // Its copy of the conversation.
  std::uint32_t count = 0;                         // leading tokens
  std::optional<wire::SessionId> session{};        // id of the conversation
  std::optional<wire::SessionId> fresh_session{};  // id for tokens that are sent as a new one
  wire::SessionId offered_session{};               // id that the connection offers for those

  // Its capabilities.
  std::uint32_t nodes_max = 0;
  bool newest_row = false;          // sends activations of the newest position only
  std::uint32_t context_count = 0;  // 0: unknown
  Instant ask_again{};              // earliest retry: it was out of capacity
  std::string replica{};
  std::string arithmetic{};    // build and kind of device
  std::string chosen_under{};  // earlier value that verified tokens of the answer have; or empty
  std::vector<PassTime> pass_times{};

  void welcomed(const wire::Welcome& welcome) {
    signed_in = true;
    link_error.reset();
    link_closed = false;
    // Replicas share nothing: another one does not know the session.
    if (!replica.empty() && welcome.replica != replica) {
      session.reset();
      count = 0;
    }
    replica = welcome.replica;
    const bool is_known = !arithmetic.empty() && !welcome.arithmetic.empty();
    if (is_known && welcome.arithmetic != arithmetic && chosen_under.empty()) {
      chosen_under = arithmetic;
    }
    arithmetic = welcome.arithmetic;
    if (arithmetic == chosen_under) chosen_under.clear();
    fresh_session = offered_session = welcome.session;
    nodes_max = welcome.nodes_max;
    newest_row = welcome.newest_row;
    context_count = welcome.context_count;
    pass_times = welcome.pass_times;
    ask_again = {};
  }
  void lost(const Error& error) {
    signed_in = false;
    link_error = error;
  }
  // Call after it took tokens, under the connection's session id if they were a new session.
  void took_tokens(bool as_new_session) {
    if (as_new_session && fresh_session) session = fresh_session;
    fresh_session.reset();
  }
  // Call after it dropped the conversation.
  void forgot() {
    session.reset();
    fresh_session = offered_session;
    count = 0;
  }

  static Error no_answer_in_time() {
    return {Errc::timed_out, "the server did not answer in time"};
  }
};

}  // namespace edgedraft::client
