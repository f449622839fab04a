#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "server/sessions/known_grammars.h"
#include "server/sessions/prefix_index.h"
#include "server/sessions/session_proposer.h"
#include "server/sessions/target_session.h"
#include "shared/base/clock.h"
#include "shared/constraints/token_texts.h"
#include "shared/protocol/message.h"

namespace edgedraft {

// Ids are secrets of their clients: anyone who knows one may try to resume it. Throws Failure if
// the system has no randomness.
wire::SessionId random_session_id();

// That --kv-memory does not hold one session, and the drafter beside it (0: there is none).
Error too_little_kv_memory(std::uint32_t context_count, std::uint64_t session_bytes,
                           std::uint64_t drafter_bytes);

// A client's sequence on the target. It outlives its connection, so that the client resumes.
struct Session {
  TargetSession target;
  std::string identity;         // who signed in: only they may resume it
  std::uint64_t connection_id;  // 0: nobody's
  Instant used;
  Instant rows_sent{};                          // the last of its prompt's
  std::size_t remembered_count = 0;             // of its tokens in the prefix index
  std::unique_ptr<SessionProposer> proposer{};  // if it streams

  // A client that takes a long prompt's rows is not idle.
  Instant last_active() const { return std::max(used, rows_sent); }
};

// What every session of a server is made of.
struct SessionParts {
  Decoder& decoder;  // outlives the sessions
  std::uint32_t context_count;
  std::function<bool(std::uint32_t)> is_end;
  DType kv_type = DType::f32;  // of keys and values
  // What constraints on answers are held against; null: none are taken.
  std::shared_ptr<const TokenTexts> texts{};
};

// Every session, which connection works on it, and the pool that all their keys and values lie in.
//
// A session gets pages for a whole prompt before the prompt starts (admit), and for each draft
// before its pass (grow). Where there are too few, first those go that only the prefix index holds,
// longest unused first; then sessions without a connection; then connected ones that nobody works
// for, idle longest first. Their clients send everything again.
//
// Threads   the compute thread alone
class SessionStore {
 public:
  struct Limits {
    std::uint32_t sessions_max = 1;
    // Bytes of all keys and values. 0: what sessions_max whole contexts take, but at most half of
    // device_bytes. If the device does not have that much, or passes would be left without memory,
    // a half, a quarter, ... of it.
    std::uint64_t kv_bytes_max = 0;
    std::uint64_t device_bytes = 0;   // of the device's memory; 0: unknown
    std::uint64_t scratch_bytes = 0;  // that the device's operations may take in a pass
    std::uint32_t waiting_max = 256;  // prompts in line for memory
    // A connected session is not evicted for a prompt that waits before it was idle for so long ...
    Duration idle_grace = std::chrono::seconds(1);
    // ... unless that prompt has waited for so long.
    Duration patience = std::chrono::seconds(5);
    // Whether a prompt may begin with pages that an earlier one has run.
    bool reuses_beginnings = true;
  };
  // Throws DeviceError where there is no memory for the pool and a pass beside it. Requires check()
  // of parts and limits
  SessionStore(SessionParts parts, const Limits& limits, std::function<Instant()> now);

  // Errors    usage  a session of the whole context does not fit into the memory
  static Result<void> check(const SessionParts& parts, const Limits& limits);
  // Bytes of keys and values that a session of the whole context takes.
  static std::uint64_t session_bytes(const SessionParts& parts);

  // The session that the connection works on; null before its first prompt, or when another
  // connection of the same client has taken it over. A session stays where it is while it lives.
  Session* find(std::uint64_t connection_id);
  // The same, made under `wanted` where there is none. Where there are as many as there may be, the
  // longest unused session that no connection holds gives way to it, or else a connected one that
  // was idle for idle_grace, of the same identity if there is any. A client that has lost that id
  // to itself gets another one, which it cannot resume.
  // Errors    refused  as many sessions as there may be are in use, or the system has no randomness
  Result<Session*> find_or_make(std::uint64_t connection_id, const wire::SessionId& wanted,
                                const std::string& identity);
  // The session that a Resume names, now this connection's; the one that it worked on before may
  // be resumed or evicted.
  // Errors    session_unknown, also where its tokens are not those that the client holds
  Result<Session*> resume(std::uint64_t connection_id, const wire::Resume& request,
                          const std::string& identity);
  std::size_t count() const { return sessions_.size(); }
  // Drops the session that the connection works on: its client has to send everything again.
  void forget(std::uint64_t connection_id);
  // The same for the sake of others.
  void give_way(std::uint64_t connection_id);
  // Whether a session that has yet to be made would begin with this prompt. Errors as of
  // TargetSession::begin()
  Result<void> check_first(const PrefillRequest& prompt) const;
  // The law of those constraints; null for none. `known` is the one that the session has. What the
  // identity's other sessions found of their grammar is used again.
  // Errors    unsupported: this server takes none; usage: of AnswerLaw::make; refused: the
  //           identity's grammars have taken too much time
  Result<std::shared_ptr<AnswerLaw>> law_of(const std::string& identity,
                                            const std::shared_ptr<AnswerLaw>& known,
                                            const Constraints& constraints);
  // The connection is over: its session may be resumed or evicted.
  void release(std::uint64_t connection_id);

  // Pages for a prompt that has been begun, all of them or none; its first tokens' where the index
  // knows them. False: others hold the memory. The session then holds nothing, so that two that
  // wait never wait for each other.
  bool admit(Session& session, Instant waiting_since);
  // A prompt that has waited since then may still wait for what others use (Limits::patience).
  bool is_patient(Instant waiting_since) const { return now_() - waiting_since < limits_.patience; }
  // Pages for the next pass of a draft. False: all that is left belongs to sessions at work. For
  // probes no session gives way: where pages are that short, the draft goes without them.
  bool grow(Session& session);
  // The session that is idle longest, and was for idle_grace, gives up its proposer, which is made
  // again should it go on. False if there is none.
  bool give_up_proposer(const Session& wanting);
  // A device failed: what was computed on it is not given to other sessions.
  void distrust() { index_.clear(); }
  // Lets others of the same identity share the full pages of what the session has run.
  void remember(Session& session);

  struct Memory {
    std::uint64_t bytes;          // of the pool, at most the limit
    std::uint32_t pages;          // of the pool
    std::uint32_t pages_held;     // by sessions or the prefix index
    std::uint32_t pages_known;    // to the prefix index
    std::uint64_t tokens_reused;  // of prompts, whose pages were shared instead of computed
    std::uint64_t evictions;      // of sessions that gave way to others, idle or not
  };
  Memory memory() const;
  // A sequence of nobody's, without pages.
  KvCache scratch_cache() { return parts_.decoder.make_cache(*pool_); }

 private:
  void let_go(Session& session);
  Result<void> make_room(const std::string& identity);
  // Frees pages that only the index holds until there are `count`; false if there are too few.
  bool find_spare_pages(std::uint32_t count);
  // Frees pages until there are `count`, at the cost of connected sessions not used since
  // `idle_before`.
  bool find_pages(std::uint32_t count, const Session& wanting, Instant idle_before);
  bool evict(const Session& wanting, Instant idle_before);
  std::uint32_t pages_missing(const Session& session) const;

  SessionParts parts_;
  Limits limits_;
  std::function<Instant()> now_;
  std::unique_ptr<KvPool> pool_;
  PrefixIndex index_;
  std::uint64_t tokens_reused_ = 0;
  std::uint64_t evictions_ = 0;
  KnownGrammars grammars_;
  std::map<wire::SessionId, Session> sessions_;
  std::map<std::uint64_t, wire::SessionId> bound_;  // connections to what they work on
};

}  // namespace edgedraft
