#include "server/sessions/session_store.h"

#include <openssl/rand.h>

#include <sstream>

#include "server/sessions/checkpoint_plan.h"
#include "shared/base/check.h"

namespace edgedraft::server {
namespace {

KvPool::Size pool_size(const SessionParts& parts, std::uint32_t page_count) {
  return parts.decoder.pool_size(page_count, parts.kv_type);
}

// Pages for a whole context followed by a tree.
std::uint32_t session_pages(const SessionParts& parts) {
  return pool_size(parts, 0).pages_for(parts.context_count + kMaskRowsMax);
}

std::uint32_t pages_within(const SessionParts& parts, std::uint64_t bytes) {
  // Slots are counted in 32 bits.
  constexpr std::uint64_t kPagesMax = (std::uint64_t{1} << 32) / KvPool::kPageSlots - 1;
  return static_cast<std::uint32_t>(std::min(bytes / pool_size(parts, 0).page_bytes(), kPagesMax));
}

std::uint64_t checkpoint_bytes(const SessionParts& parts) {
  return RecurrentStates::copy_bytes(parts.decoder.config());
}

// Checkpoints of all sessions' recurrent states, if they may take this memory.
std::uint64_t checkpoints_wanted(const SessionParts& parts, const SessionStore::Limits& limits) {
  if (!limits.reuses_beginnings || checkpoint_bytes(parts) == 0) return 0;
  return std::uint64_t{limits.sessions_max} * checkpoint_count(parts.context_count);
}

// Checkpoints take at most a quarter of the memory, and leave the pages of a whole context.
std::uint32_t checkpoints_within(const SessionParts& parts, const SessionStore::Limits& limits,
                                 std::uint64_t bytes) {
  const std::uint64_t wanted = checkpoints_wanted(parts, limits);
  if (wanted == 0) return 0;
  const std::uint64_t least = pool_size(parts, session_pages(parts)).bytes();
  const std::uint64_t most = std::min(bytes / 4, bytes - std::min(bytes, least));
  constexpr std::uint64_t kCheckpointsMax = 1 << 20;
  return static_cast<std::uint32_t>(
      std::min({wanted, most / checkpoint_bytes(parts), kCheckpointsMax}));
}

// Floats a pass takes besides the pool, some of them on first use: logits of all rows, and
// operation scratch.
std::uint64_t pass_floats(const SessionParts& parts, const SessionStore::Limits& limits) {
  return std::uint64_t{kMaskRowsMax} * parts.decoder.config().head_rows() +
         limits.scratch_bytes / sizeof(float);
}

}  // namespace

SessionStore::Pools SessionStore::make_pools(const SessionParts& parts, const Limits& limits) {
  Backend& backend = parts.decoder.backend();
  const std::uint64_t passes = pass_floats(parts, limits);
  const auto make = [&](std::uint32_t page_count, std::uint32_t checkpoints) {
    Pools pools{.pages = std::make_unique<KvPool>(backend, pool_size(parts, page_count))};
    if (checkpoints > 0) {
      pools.checkpoints =
          std::make_unique<CheckpointPool>(backend, parts.decoder.config(), checkpoints);
    }
    return pools;
  };
  if (limits.kv_bytes_max > 0) {
    try {
      const std::uint32_t checkpoints = checkpoints_within(parts, limits, limits.kv_bytes_max);
      const std::uint64_t left = limits.kv_bytes_max - checkpoints * checkpoint_bytes(parts);
      Pools pools = make(pages_within(parts, left), checkpoints);
      backend.allocate(passes);  // checks availability
      return pools;
    } catch (const DeviceError& e) {
      throw DeviceError(std::string(e.what()) + "; in addition to the pool, a pass needs " +
                        std::to_string((passes * sizeof(float)) >> 20) +
                        " MiB: give a smaller --kv-memory");
    }
  }
  const std::uint32_t least = session_pages(parts);
  std::uint64_t bytes = limits.sessions_max * session_bytes(parts) +
                        checkpoints_wanted(parts, limits) * checkpoint_bytes(parts);
  if (limits.device_bytes > 0) bytes = std::min(bytes, limits.device_bytes / 2);
  std::uint32_t checkpoints = checkpoints_within(parts, limits, bytes);
  std::uint32_t pages =
      std::max(pages_within(parts, bytes - checkpoints * checkpoint_bytes(parts)), least);
  for (;; pages = std::max(pages / 2, least), checkpoints /= 2) {
    try {
      Pools pools = make(pages, checkpoints);
      // Server-side drafters need memory as well.
      backend.allocate(std::max(pools.pages->size().bytes() / sizeof(float) / 8, passes));
      return pools;
    } catch (const DeviceError& e) {
      if (pages > least || checkpoints > 0) continue;
      throw DeviceError(std::string(e.what()) +
                        "; not even one session and its pass fit into memory: give a smaller "
                        "--ctx or a smaller model");
    }
  }
}

Error too_little_kv_memory(std::uint32_t context_count, std::uint64_t session_bytes,
                           std::uint64_t drafter_bytes) {
  // The option takes whole MiB.
  constexpr std::uint64_t kMebibyte = 1 << 20;
  const auto mebibytes = [](std::uint64_t bytes) { return static_cast<double>(bytes) / kMebibyte; };
  std::ostringstream message;
  message << "--kv-memory: a session of " << context_count << " tokens takes "
          << mebibytes(session_bytes) << " MiB";
  if (drafter_bytes > 0) {
    message << ", and its drafter for --speculate " << mebibytes(drafter_bytes) << " MiB";
  }
  message << "; give " << (session_bytes + drafter_bytes + kMebibyte - 1) / kMebibyte
          << "MB or more, " << (drafter_bytes > 0 ? "" : "or ") << "a smaller --ctx"
          << (drafter_bytes > 0 ? ", or no --speculate" : "");
  return Error{Errc::usage, message.str()};
}

wire::SessionId random_session_id() {
  wire::SessionId id;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(id.data()), static_cast<int>(id.size())) != 1) {
    throw Failure({Errc::io, "the operating system provides no random numbers"});
  }
  return id;
}

SessionStore::SessionStore(SessionParts parts, const Limits& limits, std::function<Instant()> now)
    : SessionStore(parts, limits, std::move(now), make_pools(parts, limits)) {}

SessionStore::SessionStore(const SessionParts& parts, const Limits& limits,
                           std::function<Instant()> now, Pools pools)
    : parts_(parts),
      limits_(limits),
      now_(std::move(now)),
      pool_(std::move(pools.pages)),
      checkpoints_(std::move(pools.checkpoints)),
      index_(*pool_, parts_.decoder.is_recurrent()),
      grammars_(now_) {
  // Pages alone do not continue a sequence whose layers keep states.
  if (parts_.decoder.is_recurrent() && !checkpoints_) limits_.reuses_beginnings = false;
  // Otherwise a prompt or a draft might wait forever.
  EDGEDRAFT_CHECK(pool_->size().page_count >= session_pages(parts_));
}

Result<void> SessionStore::check(const SessionParts& parts, const Limits& limits) {
  const std::uint64_t least = session_bytes(parts);
  if (limits.kv_bytes_max == 0 || limits.kv_bytes_max >= least) {
    return boost::system::in_place_value;
  }
  return too_little_kv_memory(parts.context_count, least, 0);
}

std::uint64_t SessionStore::session_bytes(const SessionParts& parts) {
  return pool_size(parts, session_pages(parts)).bytes() +
         RecurrentStates::bytes(parts.decoder.config(), kRecurrentRowsMax);
}

Session* SessionStore::find(std::uint64_t connection_id) {
  const auto bound = bound_.find(connection_id);
  if (bound == bound_.end()) return nullptr;
  const auto found = sessions_.find(bound->second);
  if (found == sessions_.end() || found->second.connection_id != connection_id) return nullptr;
  return &found->second;
}

Result<Session*> SessionStore::find_or_make(std::uint64_t connection_id,
                                            const wire::SessionId& wanted,
                                            const std::string& identity) {
  if (Session* session = find(connection_id)) return session;
  if (auto room = make_room(identity); !room) return room.error();
  std::optional<KvCache> cache;
  try {
    cache.emplace(parts_.decoder.make_cache(*pool_));
  } catch (const DeviceError& e) {  // for the states of recurrent layers
    return Error{Errc::refused,
                 "no memory for another session (" + std::string(e.what()) + "): try again later"};
  }
  TargetSession target(parts_.decoder, *std::move(cache), parts_.context_count, parts_.is_end);
  wire::SessionId id = wanted;
  if (sessions_.contains(wanted)) {
    try {
      id = random_session_id();
    } catch (const Failure& e) {
      return Error{Errc::refused, e.error().message};
    }
  }
  bound_[connection_id] = id;
  const auto made = sessions_.emplace(id, Session{.target = std::move(target),
                                                  .identity = identity,
                                                  .connection_id = connection_id,
                                                  .used = now_()});
  return &made.first->second;
}

Result<Session*> SessionStore::resume(std::uint64_t connection_id, const wire::Resume& request,
                                      const std::string& identity) {
  const Error unknown{Errc::session_unknown, "the server no longer has this session"};
  const auto found = sessions_.find(request.session);
  if (found == sessions_.end() || found->second.identity != identity) return unknown;
  Session& session = found->second;
  if (request.verified_length > session.target.tokens().size() ||
      session.target.hash_of(request.verified_length) != request.verified_hash) {
    return unknown;
  }
  if (Session* const before = find(connection_id); before != nullptr && before != &session) {
    let_go(*before);
  }
  session.connection_id = connection_id;
  bound_[connection_id] = request.session;
  return &session;
}

Result<std::shared_ptr<ConstraintFilter>> SessionStore::filter_for(
    const std::string& identity, const std::shared_ptr<ConstraintFilter>& known,
    const Constraints& constraints) {
  grammars_.forget_unused();
  if (constraints.empty()) return std::shared_ptr<ConstraintFilter>();
  if (!parts_.texts) {
    return Error{Errc::unsupported, "this server does not support constraints on answers"};
  }
  if (known && known->constraints() == constraints) return known;
  auto grammar = grammars_.find(identity, constraints.grammar);
  const bool is_new = !grammar && !constraints.grammar.empty();
  if (is_new) {
    const auto afforded = grammars_.afford_another(identity, constraints.grammar.size());
    if (!afforded) return afforded.error();
  }
  auto filter = ConstraintFilter::make(constraints, parts_.texts, std::move(grammar));
  if (!filter) return filter.error();
  if (is_new) grammars_.add(identity, constraints.grammar, filter->grammar());
  return std::make_shared<ConstraintFilter>(*std::move(filter));
}

void SessionStore::forget(std::uint64_t connection_id) {
  if (find(connection_id) != nullptr) sessions_.erase(bound_.at(connection_id));
  bound_.erase(connection_id);
}

void SessionStore::give_way(std::uint64_t connection_id) {
  if (find(connection_id) != nullptr) ++evictions_;
  forget(connection_id);
}

Result<void> SessionStore::check_first(const PrefillRequest& prompt) const {
  return TargetSession::check(prompt, 0, parts_.decoder.config().vocabulary_count,
                              parts_.context_count);
}

void SessionStore::release(std::uint64_t connection_id) {
  if (Session* session = find(connection_id)) let_go(*session);
  bound_.erase(connection_id);
}

void SessionStore::let_go(Session& session) {
  session.connection_id = 0;
  session.proposer.reset();  // recreated from the keys and values if the session continues
}

bool SessionStore::admit(Session& session, Instant waiting_since) {
  TargetSession& target = session.target;
  const KnownPrefix known = index_.find(session.identity, target.skippable_tokens());
  const auto known_count =
      static_cast<std::uint32_t>(known.pages.size()) * pool_->size().page_slots;
  const std::uint32_t own_count = target.valid_count();
  if (known_count > own_count) target.adopt(known.pages, known.states.get());
  if (checkpoints_) target.set_checkpoint(known_count);
  session.remembered_count = 0;
  const Instant now = now_();
  const Instant idle_before = is_patient(waiting_since) ? now - limits_.idle_grace : now;
  if (find_pages(pages_missing(session), session, idle_before) && target.reserve()) {
    tokens_reused_ += target.valid_count() - own_count;
    return true;
  }
  target.drop_cache();
  return false;
}

bool SessionStore::grow(Session& session) {
  if (session.target.probe_rows() > 0 && !find_spare_pages(pages_missing(session))) {
    session.target.drop_probes();
  }
  return find_pages(pages_missing(session), session, now_()) && session.target.reserve();
}

bool SessionStore::give_up_proposer(const Session& wanting) {
  Session* chosen = nullptr;
  const Instant idle_before = now_() - limits_.idle_grace;
  for (auto& [id, session] : sessions_) {
    if (&session == &wanting || !session.proposer || session.target.busy()) continue;
    if (session.last_active() > idle_before) continue;
    if (chosen == nullptr || session.last_active() < chosen->last_active()) chosen = &session;
  }
  if (chosen == nullptr) return false;
  chosen->proposer.reset();
  return true;
}

void SessionStore::remember(Session& session) {
  if (!limits_.reuses_beginnings) return;
  if (checkpoints_) {
    remember_states(session);
    return;
  }
  const std::uint32_t page_slots = pool_->size().page_slots;
  auto tokens = session.target.settled_tokens();
  tokens = tokens.first(tokens.size() - tokens.size() % page_slots);
  if (tokens.size() == session.remembered_count) return;
  index_.add(session.identity, tokens,
             session.target.cache().pages().first(tokens.size() / page_slots));
  session.remembered_count = tokens.size();
}

void SessionStore::remember_states(Session& session) {
  TargetSession& target = session.target;
  const std::uint32_t count = target.checkpoint_due();
  if (count == 0) return;
  target.set_checkpoint(count);
  const auto tokens = target.tokens().first(count);
  const auto pages = target.cache().pages().first(count / pool_->size().page_slots);
  if (index_.find(session.identity, tokens).pages.size() == pages.size()) return;
  auto states = target.save_states(*checkpoints_);
  while (!states && index_.reclaim_states()) states = target.save_states(*checkpoints_);
  if (states) index_.add(session.identity, tokens, pages, std::move(states));
}

SessionStore::Memory SessionStore::memory() const {
  const KvPool::Size& pages = pool_->size();
  const std::uint32_t checkpoints = checkpoints_ ? checkpoints_->count() : 0;
  const std::uint32_t taken = checkpoints_ ? checkpoints_->used_count() : 0;
  const std::uint64_t each = checkpoint_bytes(parts_);
  return {.bytes = pages.bytes() + checkpoints * each,
          .bytes_held = pool_->used_count() * pages.page_bytes() + taken * each,
          .pages = pages.page_count,
          .pages_held = pool_->used_count(),
          .pages_known = static_cast<std::uint32_t>(index_.page_count()),
          .checkpoints = checkpoints,
          .checkpoints_held = taken,
          .tokens_reused = tokens_reused_,
          .evictions = evictions_};
}

bool SessionStore::find_spare_pages(std::uint32_t count) {
  while (pool_->free_count() < count) {
    if (!index_.reclaim()) return false;
  }
  return true;
}

bool SessionStore::find_pages(std::uint32_t count, const Session& wanting, Instant idle_before) {
  while (!find_spare_pages(count)) {
    if (!evict(wanting, idle_before)) return false;
  }
  return true;
}

bool SessionStore::evict(const Session& wanting, Instant idle_before) {
  auto chosen = sessions_.end();
  const auto goes_before = [](const Session& a, const Session& b) {
    const bool a_gone = a.connection_id == 0;
    const bool b_gone = b.connection_id == 0;
    return a_gone != b_gone ? a_gone : a.last_active() < b.last_active();
  };
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
    const Session& session = it->second;
    if (&session == &wanting || session.target.busy() || session.target.cache().slots() == 0) {
      continue;
    }
    if (session.connection_id != 0 && session.last_active() > idle_before) continue;
    if (chosen == sessions_.end() || goes_before(session, chosen->second)) chosen = it;
  }
  if (chosen == sessions_.end()) return false;
  sessions_.erase(chosen);
  ++evictions_;
  return true;
}

std::uint32_t SessionStore::pages_missing(const Session& session) const {
  const std::uint32_t wanted = pool_->size().pages_for(session.target.slots_wanted());
  return wanted - std::min(wanted, pool_->size().pages_for(session.target.cache().slots()));
}

Result<void> SessionStore::make_room(const std::string& identity) {
  // Connected sessions, and those of other identities, are evicted last.
  const auto rank = [&](const Session& session) {
    return session.connection_id == 0 ? 0 : session.identity == identity ? 1 : 2;
  };
  while (sessions_.size() >= limits_.sessions_max) {
    auto chosen = sessions_.end();
    for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
      const Session& session = it->second;
      const bool idle =
          !session.target.busy() && now_() - session.last_active() >= limits_.idle_grace;
      if (session.connection_id != 0 && !idle) continue;
      const auto order = [&](const Session& s) { return std::pair(rank(s), s.last_active()); };
      if (chosen == sessions_.end() || order(session) < order(chosen->second)) chosen = it;
    }
    if (chosen == sessions_.end()) {
      return Error{Errc::refused, "all of the server's sessions are in use: try again later"};
    }
    sessions_.erase(chosen);
    ++evictions_;
  }
  return boost::system::in_place_value;
}

}  // namespace edgedraft::server
