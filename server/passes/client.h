#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "shared/base/error.h"
#include "shared/drafting/tap.h"
#include "shared/protocol/message.h"

namespace edgedraft::server {

// Sink for a connection's answers. Answers after its end are dropped.
class Replies {
 public:
  virtual ~Replies() = default;
  virtual void verdict(wire::Verdict verdict) = 0;
  // Activations of a prompt.
  virtual void activations(wire::Activations chunk) = 0;
  // Activations of a run, sent after the verdict they belong to.
  virtual void run_activations(wire::Activations rows) { activations(std::move(rows)); }
  virtual void refuse(std::uint32_t round, Error error) = 0;
  // True if the client reads so slowly that its stream must pause.
  virtual bool full() const { return false; }
  // Like full(), for a prompt's activations.
  virtual bool full_of_chunks() const { return false; }
};

// A request's view of its connection.
struct Client {
  std::uint64_t connection_id;
  std::shared_ptr<Replies> reply;
  wire::SessionId session;
  std::string identity;                   // of the signed-in client; only that identity may resume
                                          // the session
  Tap* tap;                               // null if the drafter needs none
  wire::Codec codec = wire::Codec::gzip;  // for a prompt's activations
  bool newest_row = false;                // verdicts carry no rows of older positions
};

using TargetWork = std::variant<wire::Prefill, wire::Resume>;

inline std::uint32_t round_of(const TargetWork& request) {
  return std::visit([](const auto& r) { return r.round; }, request);
}

}  // namespace edgedraft::server
