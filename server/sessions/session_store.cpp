#include "server/sessions/session_store.h"

#include <openssl/rand.h>

#include <cmath>
#include <sstream>

#include "server/sessions/checkpoint_plan.h"
#include "shared/base/check.h"

namespace edgedraft::server {
namespace {

// Memory is split between the pools so that both are used up by sessions of this length. Longer
// ones leave pages of windows to the prefix index.
constexpr std::uint32_t kUsualTokens = 8192;

// Slots for a whole context followed by a tree.
std::uint32_t session_slots(const SessionParts& parts) {
  return parts.context_count + kMaskRowsMax;
}

std::uint64_t bytes_of(const Decoder::PoolSizes& sizes) {
  return sizes.whole.bytes() + sizes.windowed.bytes();
}

// Pools for one session of the whole context.
Decoder::PoolSizes session_pools(const SessionParts& parts) {
  Decoder::PoolSizes sizes{.whole = parts.decoder.pool_size(0, parts.kv_type), .windowed = {}};
  if (parts.decoder.window() > 0) {
    sizes = parts.decoder.pool_sizes(parts.kv_type);
    sizes.windowed.page_count = WindowPages::pages_for(parts.decoder.window(), session_slots(parts),
                                                       sizes.windowed.page_slots);
  }
  sizes.whole.page_count = sizes.whole.pages_for(session_slots(parts));
  return sizes;
}

// Further pages of windows per session, for the prefix index.
std::uint32_t index_share(const Decoder::PoolSizes& session, const SessionStore::Limits& limits) {
  return limits.reuses_beginnings ? session.windowed.page_count / 4 : 0;
}

std::uint32_t pages_within(std::uint64_t bytes, const KvPool::Size& size) {
  // Slots are counted in 32 bits.
  constexpr std::uint64_t kPagesMax = (std::uint64_t{1} << 32) / KvPool::kPageSlots - 1;
  return static_cast<std::uint32_t>(std::min(bytes / size.page_bytes(), kPagesMax));
}

// Requires  bytes for session_pools()
Decoder::PoolSizes pools_within(const SessionParts& parts, const SessionStore::Limits& limits,
                                std::uint64_t bytes) {
  Decoder::PoolSizes sizes = session_pools(parts);
  if (parts.decoder.window() > 0) {
    KvPool::Size& windowed = sizes.windowed;
    KvPool::Size usual = sizes.whole;
    usual.page_count = usual.pages_for(std::min(session_slots(parts), kUsualTokens));
    const std::uint64_t sessions = std::clamp<std::uint64_t>(
        bytes / (usual.bytes() + windowed.bytes()), 1, limits.sessions_max);
    const std::uint64_t pages = sessions * (windowed.page_count + index_share(sizes, limits));
    const std::uint64_t left = bytes - std::max(sessions * usual.bytes(), sizes.whole.bytes());
    windowed.page_count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(pages, pages_within(left, windowed)));
  }
  sizes.whole.page_count = pages_within(bytes - sizes.windowed.bytes(), sizes.whole);
  return sizes;
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
  const std::uint64_t least = bytes_of(session_pools(parts));
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

SessionPools open_pools(const SessionParts& parts, const Decoder::PoolSizes& sizes,
                        std::uint32_t checkpoints) {
  Backend& backend = parts.decoder.backend();
  SessionPools pools{.whole = std::make_unique<KvPool>(backend, sizes.whole)};
  if (!sizes.windowed.kv_cols.empty()) {
    pools.windowed = std::make_unique<KvPool>(backend, sizes.windowed);
  }
  if (checkpoints > 0) {
    pools.checkpoints =
        std::make_unique<CheckpointPool>(backend, parts.decoder.config(), checkpoints);
  }
  return pools;
}

SessionPools make_pools(const SessionParts& parts, const SessionStore::Limits& limits) {
  Backend& backend = parts.decoder.backend();
  const std::uint64_t passes = pass_floats(parts, limits);
  if (limits.kv_bytes_max > 0) {
    try {
      const std::uint32_t checkpoints = checkpoints_within(parts, limits, limits.kv_bytes_max);
      const std::uint64_t left = limits.kv_bytes_max - checkpoints * checkpoint_bytes(parts);
      SessionPools pools = open_pools(parts, pools_within(parts, limits, left), checkpoints);
      backend.allocate(passes);  // checks availability
      return pools;
    } catch (const DeviceError& e) {
      throw DeviceError(std::string(e.what()) + "; in addition to the pool, a pass needs " +
                        std::to_string((passes * sizeof(float)) >> 20) +
                        " MiB: give a smaller --kv-memory");
    }
  }
  const Decoder::PoolSizes session = session_pools(parts);
  const std::uint64_t least = bytes_of(session);
  std::uint64_t bytes =
      limits.sessions_max * (SessionStore::session_bytes(parts) +
                             index_share(session, limits) * session.windowed.page_bytes()) +
      checkpoints_wanted(parts, limits) * checkpoint_bytes(parts);
  if (limits.device_bytes > 0) bytes = std::min(bytes, limits.device_bytes / 2);
  bytes = std::max(bytes, least);
  for (;; bytes = std::max(bytes / 2, least)) {
    const std::uint32_t checkpoints = checkpoints_within(parts, limits, bytes);
    const Decoder::PoolSizes sizes =
        pools_within(parts, limits, bytes - checkpoints * checkpoint_bytes(parts));
    try {
      SessionPools pools = open_pools(parts, sizes, checkpoints);
      // Server-side drafters need memory as well.
      backend.allocate(std::max(bytes_of(sizes) / sizeof(float) / 8, passes));
      return pools;
    } catch (const DeviceError& e) {
      if (bytes > least) continue;
      throw DeviceError(std::string(e.what()) +
                        "; not even one session and its pass fit into memory: give a smaller "
                        "--ctx or a smaller model");
    }
  }
}

}  // namespace

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
    : parts_(std::move(parts)),
      limits_(limits),
      now_(std::move(now)),
      pools_(make_pools(parts_, limits)),
      index_(*pools_.whole, {.windowed = pools_.windowed.get(),
                             .window = parts_.decoder.window(),
                             .needs_states = parts_.decoder.is_recurrent()}),
      grammars_(now_) {
  // Pages alone do not continue a sequence whose layers keep states.
  if (parts_.decoder.is_recurrent() && !pools_.checkpoints) limits_.reuses_beginnings = false;
  // Otherwise a prompt or a draft might wait forever.
  const Decoder::PoolSizes least = session_pools(parts_);
  EDGEDRAFT_CHECK(pools_.whole->size().page_count >= least.whole.page_count);
  EDGEDRAFT_CHECK(!pools_.windowed ||
                  pools_.windowed->size().page_count >= least.windowed.page_count);
}

Result<void> SessionStore::check(const SessionParts& parts, const Limits& limits) {
  const std::uint64_t least = session_bytes(parts);
  if (limits.kv_bytes_max == 0 || limits.kv_bytes_max >= least) {
    return boost::system::in_place_value;
  }
  return too_little_kv_memory(parts.context_count, least, 0);
}

std::uint64_t SessionStore::session_bytes(const SessionParts& parts) {
  return parts.decoder.pooled_bytes(session_slots(parts), parts.kv_type) +
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
    cache.emplace(make_cache());
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
      static_cast<std::uint32_t>(known.pages.size()) * pools_.whole->size().page_slots;
  const std::uint32_t own_count = target.valid_count();
  if (known_count > own_count) {
    target.adopt(known.pages, known.window_pages, known.states.get());
  }
  if (pools_.checkpoints) target.set_checkpoint(known_count);
  session.remembered_count = 0;
  const Instant now = now_();
  const Instant idle_before = is_patient(waiting_since) ? now - limits_.idle_grace : now;
  if (find_pages(session, idle_before) && target.reserve()) {
    tokens_reused_ += target.valid_count() - own_count;
    return true;
  }
  target.drop_cache();
  return false;
}

bool SessionStore::grow(Session& session) {
  if (session.target.probe_rows() > 0 && !find_spare_pages(session)) {
    session.target.drop_probes();
  }
  return find_pages(session, now_()) && session.target.reserve();
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
  if (pools_.checkpoints) {
    remember_states(session);
    return;
  }
  const std::uint32_t page_slots = pools_.whole->size().page_slots;
  auto tokens = session.target.settled_tokens();
  tokens = tokens.first(tokens.size() - tokens.size() % page_slots);
  if (tokens.size() == session.remembered_count) return;
  const KvCache& cache = session.target.cache();
  const std::size_t count = tokens.size() / page_slots;
  std::span<const std::uint32_t> window_pages;
  if (const WindowPages* const windowed = cache.windowed()) {
    window_pages = windowed->table().first(count);
    window_pages = window_pages.subspan(std::min<std::size_t>(windowed->first(), count));
  }
  index_.add(session.identity, tokens, cache.pages().first(count), window_pages);
  session.remembered_count = tokens.size();
}

void SessionStore::remember_states(Session& session) {
  TargetSession& target = session.target;
  const std::uint32_t count = target.checkpoint_due();
  if (count == 0) return;
  target.set_checkpoint(count);
  const auto tokens = target.tokens().first(count);
  const auto pages = target.cache().pages().first(count / pools_.whole->size().page_slots);
  if (index_.find(session.identity, tokens).pages.size() == pages.size()) return;
  auto states = target.save_states(*pools_.checkpoints);
  while (!states && index_.reclaim_states()) states = target.save_states(*pools_.checkpoints);
  if (states) index_.add(session.identity, tokens, pages, {}, std::move(states));
}

SessionStore::Memory SessionStore::memory() const {
  const KvPool::Size& whole = pools_.whole->size();
  Memory memory{.bytes = whole.bytes(),
                .bytes_held = pools_.whole->used_count() * whole.page_bytes(),
                .pages = whole.page_count,
                .pages_held = pools_.whole->used_count(),
                .pages_known = static_cast<std::uint32_t>(index_.page_count()),
                .tokens_reused = tokens_reused_,
                .evictions = evictions_};
  if (pools_.windowed) {
    const KvPool::Size& windowed = pools_.windowed->size();
    memory.windowed_pages = windowed.page_count;
    memory.windowed_pages_held = pools_.windowed->used_count();
    memory.bytes += windowed.bytes();
    memory.bytes_held += memory.windowed_pages_held * windowed.page_bytes();
  }
  if (pools_.checkpoints) {
    const std::uint64_t each = checkpoint_bytes(parts_);
    memory.checkpoints = pools_.checkpoints->count();
    memory.checkpoints_held = pools_.checkpoints->used_count();
    memory.bytes += memory.checkpoints * each;
    memory.bytes_held += memory.checkpoints_held * each;
  }
  return memory;
}

KvCache SessionStore::make_cache() {
  return pools_.windowed ? parts_.decoder.make_cache(*pools_.whole, *pools_.windowed)
                         : parts_.decoder.make_cache(*pools_.whole);
}

bool SessionStore::find_spare_pages(const Session& wanting) {
  const TargetSession& target = wanting.target;
  if (!target.cache().has_windows_for(target.slots_wanted())) return false;
  const std::uint32_t count = pages_missing(wanting);
  while (pools_.whole->free_count() < count) {
    if (!index_.reclaim()) return false;
  }
  return true;
}

bool SessionStore::find_pages(const Session& wanting, Instant idle_before) {
  while (!find_spare_pages(wanting)) {
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
  const std::uint32_t wanted = pools_.whole->size().pages_for(session.target.slots_wanted());
  return wanted - std::min(wanted, pools_.whole->size().pages_for(session.target.cache().slots()));
}

Result<void> SessionStore::make_room(const std::string& identity) {
  while (sessions_.size() >= limits_.sessions_max) {
    if (evict_idle(identity, false)) continue;
    return Error{Errc::refused, "all of the server's sessions are in use: try again later"};
  }
  return boost::system::in_place_value;
}

Result<void> SessionStore::make_own_room(const std::string& identity, std::uint32_t sessions_max) {
  const auto is_own = [&](const auto& entry) { return entry.second.identity == identity; };
  while (std::ranges::count_if(sessions_, is_own) >= std::int64_t{sessions_max}) {
    if (evict_idle(identity, true)) continue;
    return Error{Errc::refused,
                 "all " + std::to_string(sessions_max) + " sessions of tenant " + identity +
                     " are in use: try again in " +
                     std::to_string(std::lround(std::ceil(seconds(limits_.idle_grace)))) +
                     " s, or when one has been idle that long"};
  }
  return boost::system::in_place_value;
}

bool SessionStore::evict_idle(const std::string& identity, bool only_own) {
  // Connected sessions, and those of other identities, are evicted last.
  const auto rank = [&](const Session& session) {
    return session.connection_id == 0 ? 0 : session.identity == identity ? 1 : 2;
  };
  const auto order = [&](const Session& s) { return std::pair(rank(s), s.last_active()); };
  auto chosen = sessions_.end();
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
    const Session& session = it->second;
    if (only_own && session.identity != identity) continue;
    const bool idle =
        !session.target.busy() && now_() - session.last_active() >= limits_.idle_grace;
    if (session.connection_id != 0 && !idle) continue;
    if (chosen == sessions_.end() || order(session) < order(chosen->second)) chosen = it;
  }
  if (chosen == sessions_.end()) return false;
  sessions_.erase(chosen);
  ++evictions_;
  return true;
}

}  // namespace edgedraft::server
