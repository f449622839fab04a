#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "server/sessions/known_grammars.h"
#include "server/sessions/prefix_index.h"
#include "server/sessions/session_proposer.h"
#include "server/sessions/target_session.h"
#include "shared/base/clock.h"
#include "shared/constraints/token_texts.h"
#include "shared/protocol/message.h"

namespace edgedraft::server {

// Session ids are secrets: any client that knows one may try to resume it. Throws Failure if the
// system has no randomness.
wire::SessionId random_session_id();

// Error for a --kv-memory too small for one session and its drafter (`drafter_bytes` 0: no
// drafter).
Error too_little_kv_memory(std::uint32_t context_count, std::uint64_t session_bytes,
                           std::uint64_t drafter_bytes);

// A client's sequence on the target. It outlives its connection, so that the client can resume it.
struct Session {
  TargetSession target;
  std::string identity;         // the signed-in client's; only that identity may resume it
  std::uint64_t connection_id;  // 0: unbound
  Instant used;
  Instant rows_sent{};                          // when the last activations of its prompt were sent
  std::size_t remembered_count = 0;             // tokens already in the prefix index
  std::unique_ptr<SessionProposer> proposer{};  // set while it streams

  // A client that receives a long prompt's rows is not idle.
  Instant last_active() const { return std::max(used, rows_sent); }
};

// Shared by all sessions of a server.
struct SessionParts {
  Decoder& decoder;  // must outlive the sessions
  std::uint32_t context_count;
  std::function<bool(std::uint32_t)> is_end;
  DType kv_type = DType::f32;  // type of the cache
  // Vocabulary for constraints; null: constraints are refused.
  std::shared_ptr<const TokenTexts> texts{};
};

// Memory of all sessions: pages of layers that see all positions, and of layers with windows (null
// if all layers share a pool), and checkpoints of recurrent states (null if there are none).
struct SessionPools {
  std::unique_ptr<KvPool> whole;
  std::unique_ptr<KvPool> windowed{};
  std::unique_ptr<CheckpointPool> checkpoints{};
};

// All sessions, the connections bound to them, and the page pools of their keys and values.
//
// If only some layers have windows, these have a pool of their own, of which a session needs a
// bounded number of pages whatever its length (WindowPages). Sessions are promised these pages, and
// the prefix index keeps what they do not hold.
//
// A session gets pages for a whole prompt before the prompt starts (admit), and for each draft
// before its pass (grow). If pages run short, these are evicted in order: pages held by the prefix
// index only, least recently used first; disconnected sessions; connected sessions without a
// request, idle longest first. Evicted clients resend everything.
//
// Threads   the compute thread
class SessionStore {
 public:
  struct Limits {
    std::uint32_t sessions_max = 1;
    // Size of the pools. 0: enough for sessions_max whole contexts, but at most half of
    // device_bytes. If the device cannot provide it, or passes would run out of memory, it is
    // halved repeatedly.
    std::uint64_t kv_bytes_max = 0;
    std::uint64_t device_bytes = 0;   // device memory; 0: unknown
    std::uint64_t scratch_bytes = 0;  // scratch that device operations may take per pass
    std::uint32_t waiting_max = 256;  // prompts queued for memory
    // A waiting prompt evicts a connected session only after this idle time ...
    Duration idle_grace = std::chrono::seconds(1);
    // ... unless the prompt has waited this long.
    Duration patience = std::chrono::seconds(5);
    // Enables the prefix cache.
    bool reuses_beginnings = true;
  };
  // Throws DeviceError if the device lacks memory for the pool and a pass.
  // Requires check() of parts and limits
  SessionStore(SessionParts parts, const Limits& limits, std::function<Instant()> now);

  // Errors    usage  the memory does not hold a session of the whole context
  static Result<void> check(const SessionParts& parts, const Limits& limits);
  // Bytes of keys and values per session of the whole context, at most.
  static std::uint64_t session_bytes(const SessionParts& parts);

  // The session bound to the connection; null before its first prompt, or after another connection
  // of the same client took it over. The pointer is stable for the session's lifetime.
  Session* find(std::uint64_t connection_id);
  // Like find(), but creates a session under `wanted` if there is none. At the session limit, the
  // least recently used unbound session is evicted. Without one, a connected session that was idle
  // for idle_grace is, preferably of the same identity. If `wanted` is taken, the client gets
  // another id, which it cannot resume.
  // Errors    refused  all sessions are in use, or the system has no randomness
  Result<Session*> find_or_make(std::uint64_t connection_id, const wire::SessionId& wanted,
                                const std::string& identity);
  // Evicts sessions of the identity as find_or_make() does until it has fewer than `sessions_max`.
  // Errors    refused  all of them are in use
  Result<void> make_own_room(const std::string& identity, std::uint32_t sessions_max);
  // Binds the session named by a Resume to the connection and unbinds the previous one, which may
  // then be resumed or evicted.
  // Errors    session_unknown, also if its tokens differ from the client's
  Result<Session*> resume(std::uint64_t connection_id, const wire::Resume& request,
                          const std::string& identity);
  std::size_t count() const { return sessions_.size(); }
  // Drops the connection's session; its client must resend everything.
  void forget(std::uint64_t connection_id);
  // Like forget(), counted as an eviction.
  void give_way(std::uint64_t connection_id);
  // Checks whether a session yet to be created would accept this prompt.
  // Errors as of TargetSession::begin()
  Result<void> check_first(const PrefillRequest& prompt) const;
  // Compiles constraints; null if there are none. `known` is the session's current constraint.
  // Grammars compiled for the identity's other sessions are reused.
  // Errors    unsupported: constraints are disabled; usage: of ConstraintFilter::make; refused: the
  //           identity's grammars used up its budget
  Result<std::shared_ptr<ConstraintFilter>> filter_for(
      const std::string& identity, const std::shared_ptr<ConstraintFilter>& known,
      const Constraints& constraints);
  // Unbinds a closed connection's session, which may then be resumed or evicted.
  void release(std::uint64_t connection_id);

  // Takes pages for a started prompt, all or none; a known prefix shares its pages. Returns false
  // if others hold the memory; the session then holds nothing, so two waiting prompts cannot
  // deadlock.
  bool admit(Session& session, Instant waiting_since);
  // True while a prompt waiting since then may not evict sessions in use (Limits::patience).
  bool is_patient(Instant waiting_since) const { return now_() - waiting_since < limits_.patience; }
  // Takes pages for the next pass of a draft. Returns false if active sessions hold all the rest.
  // Probes evict no session; if pages are that short, the draft runs without them.
  bool grow(Session& session);
  // Drops the proposer of the session idle longest, at least idle_grace; it is recreated if that
  // session continues. Returns false if there is none.
  bool give_up_proposer(const Session& wanting);
  // After a device failure: discards results computed on it, so that no other session reuses them.
  void distrust() { index_.clear(); }
  // Shares the session's full pages with other sessions of its identity. With recurrent layers it
  // shares those up to a checkpoint, when the session's states reach the position of one.
  void remember(Session& session);

  struct Memory {
    std::uint64_t bytes;        // size of all pools, at most the limit
    std::uint64_t bytes_held;   // in use
    std::uint32_t pages;        // size of the pool of layers without a window
    std::uint32_t pages_held;   // of them, held by sessions or the prefix index
    std::uint32_t pages_known;  // of them, in the prefix index
    // Size of the pool of layers with windows, and its pages in use.
    std::uint32_t windowed_pages = 0;
    std::uint32_t windowed_pages_held = 0;
    // Checkpoints of recurrent states that the memory holds, and those in use.
    std::uint32_t checkpoints = 0;
    std::uint32_t checkpoints_held = 0;
    std::uint64_t tokens_reused;  // prompt tokens served from shared pages
    std::uint64_t evictions;      // sessions evicted for others, idle or not
  };
  Memory memory() const;
  // Returns a cache without pages, for a session or a pass of none.
  KvCache make_cache();

 private:
  void let_go(Session& session);
  void remember_states(Session& session);
  Result<void> make_room(const std::string& identity);
  // Evicts the best candidate in favour of the identity, of all sessions or only its own; false if
  // all are in use.
  bool evict_idle(const std::string& identity, bool only_own);
  // Frees pages that only the index holds until the session's request has enough; false if it
  // cannot.
  bool find_spare_pages(const Session& wanting);
  // Likewise, evicting connected sessions not used since `idle_before`.
  bool find_pages(const Session& wanting, Instant idle_before);
  bool evict(const Session& wanting, Instant idle_before);
  std::uint32_t pages_missing(const Session& session) const;

  SessionParts parts_;
  Limits limits_;
  std::function<Instant()> now_;
  SessionPools pools_;
  PrefixIndex index_;
  std::uint64_t tokens_reused_ = 0;
  std::uint64_t evictions_ = 0;
  KnownGrammars grammars_;
  std::map<wire::SessionId, Session> sessions_;
  std::map<std::uint64_t, wire::SessionId> bound_;  // connection to session
};

}  // namespace edgedraft::server
