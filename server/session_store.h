#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "server/speculation/session_drafter.h"
#include "server/target_session.h"
#include "shared/base/clock.h"
#include "shared/protocol/message.h"

namespace edgedraft {

// Ids are secrets of their clients: whoever knows one may try to resume it. Throws Failure where
// the system has no randomness.
wire::SessionId random_session_id();

// A client's sequence on the target. It outlives its connection, so that the client resumes.
struct Session {
  TargetSession target;
  std::string identity;         // who signed in: only they may resume it
  std::uint64_t connection_id;  // 0: nobody's, may be evicted
  Instant used;
  std::unique_ptr<SessionDrafter> drafter{};  // beside the target, where it streams
};

// What every session of a server is made of.
struct SessionParts {
  Decoder& decoder;  // outlives the sessions
  std::uint32_t context_count;
  std::function<bool(std::uint32_t)> is_end;
  std::uint64_t bytes;  // of a session's keys and values
};

// Every session and which connection works on it.
//
// Threads   the compute thread alone
class SessionStore {
 public:
  struct Limits {
    std::uint32_t sessions_max;
    std::uint64_t kv_bytes_max;  // of all sessions together; 0: no limit
  };
  SessionStore(SessionParts parts, const Limits& limits, std::function<Instant()> now)
      : parts_(std::move(parts)), limits_(limits), now_(std::move(now)) {}

  // The session that the connection works on; null before its first prompt, or when another
  // connection of the same client has taken it over. A session stays where it is while it lives.
  Session* find(std::uint64_t connection_id);
  // The same, made under `wanted` where there is none; the longest unused session that no
  // connection holds gives way to it. A client that has lost that id to itself gets another one,
  // which it cannot resume.
  // Errors    refused  no room. Throws DeviceError where there is no memory.
  Result<Session*> find_or_make(std::uint64_t connection_id, const wire::SessionId& wanted,
                                const std::string& identity);
  // The session that a Resume names, now this connection's.
  // Errors    session_unknown, also where its tokens are not those that the client holds
  Result<Session*> resume(std::uint64_t connection_id, const wire::Resume& request,
                          const std::string& identity);
  // Sessions of connections that had an answer since then.
  std::uint32_t count_used_since(Instant time) const;
  // Drops the session that the connection works on: its client has to send everything again.
  void forget(std::uint64_t connection_id);
  // The connection is over: its session may be resumed or evicted.
  void release(std::uint64_t connection_id);

 private:
  Result<void> make_room();

  SessionParts parts_;
  Limits limits_;
  std::function<Instant()> now_;
  std::map<wire::SessionId, Session> sessions_;
  std::map<std::uint64_t, wire::SessionId> bound_;  // connections to what they work on
};

}  // namespace edgedraft
