#include "server/session_store.h"

#include <openssl/rand.h>

#include <algorithm>
#include <utility>

namespace edgedraft {

wire::SessionId random_session_id() {
  wire::SessionId id;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(id.data()), static_cast<int>(id.size())) != 1) {
    throw Failure({Errc::io, "the operating system gives no random numbers"});
  }
  return id;
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
  if (auto room = make_room(); !room) return room.error();
  TargetSession target(parts_.decoder, parts_.context_count, parts_.is_end);
  const wire::SessionId id = sessions_.contains(wanted) ? random_session_id() : wanted;
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
  const auto tokens = session.target.tokens();
  if (request.verified_length > tokens.size() ||
      wire::token_hash(tokens.first(request.verified_length)) != request.verified_hash) {
    return unknown;
  }
  session.connection_id = connection_id;
  bound_[connection_id] = request.session;
  return &session;
}

std::uint32_t SessionStore::count_used_since(Instant time) const {
  return static_cast<std::uint32_t>(
      std::count_if(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
        return entry.second.connection_id != 0 && entry.second.used >= time;
      }));
}

void SessionStore::forget(std::uint64_t connection_id) {
  if (find(connection_id) != nullptr) sessions_.erase(bound_.at(connection_id));
  bound_.erase(connection_id);
}

void SessionStore::release(std::uint64_t connection_id) {
  if (Session* session = find(connection_id)) {
    session->connection_id = 0;
    session->drafter.reset();  // made again from the keys and values, should it come back
  }
  bound_.erase(connection_id);
}

Result<void> SessionStore::make_room() {
  const std::uint64_t by_memory =
      limits_.kv_bytes_max > 0 ? limits_.kv_bytes_max / parts_.bytes : ~std::uint64_t{0};
  while (sessions_.size() >= std::min<std::uint64_t>(limits_.sessions_max, by_memory)) {
    auto oldest = sessions_.end();
    for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
      if (it->second.connection_id != 0) continue;
      if (oldest == sessions_.end() || it->second.used < oldest->second.used) oldest = it;
    }
    if (oldest == sessions_.end()) {
      return Error{Errc::refused, "all of the server's sessions are in use: try again later"};
    }
    sessions_.erase(oldest);
  }
  return boost::system::in_place_value;
}

}  // namespace edgedraft
