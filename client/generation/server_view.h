#pragma once

#include <cstdint>
#include <optional>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/protocol/message.h"

namespace edgedraft {

// What is known of the server and the way to it.
struct ServerView {
  // The way.
  bool signed_in = false;
  std::optional<Error> link_error{};  // why it is down, since it was told
  bool link_closed = false;  // for a reason that trying again on this connection does not cure

  // What it holds of the conversation.
  std::uint32_t count = 0;                         // leading tokens
  std::optional<wire::SessionId> session{};        // its name for the conversation
  std::optional<wire::SessionId> fresh_session{};  // of tokens that are put in as a new one
  wire::SessionId offered_session{};               // by the connection, for these

  // What it can do.
  std::uint32_t nodes_max = 0;
  bool newest_row = false;          // it sends the newest position's activations alone
  std::uint32_t context_count = 0;  // 0: not known
  Instant ask_again{};              // not before: it had no room

  void welcomed(const wire::Welcome& welcome);
  void lost(const Error& error);
  // It took tokens in, under the name that it gave the connection if that was new.
  void took_tokens(bool as_new_session);
  // It no longer has the conversation.
  void forgot();

  static Error no_answer_in_time() {
    return {Errc::timed_out, "the server did not answer in time"};
  }
};

}  // namespace edgedraft
