#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "shared/base/error.h"
#include "shared/drafting/tap.h"
#include "shared/protocol/message.h"

namespace edgedraft {

// Where a connection's answers go. Answers after its end are dropped.
class Replies {
 public:
  virtual ~Replies() = default;
  virtual void verdict(wire::Verdict verdict) = 0;
  // A prompt's rows.
  virtual void activations(wire::Activations chunk) = 0;
  // A run's rows, after the verdict that they belong to.
  virtual void run_activations(wire::Activations rows) { activations(std::move(rows)); }
  virtual void refuse(std::uint32_t round, Error error) = 0;
  // Whether the client is so far behind in reading that a stream has to pause.
  virtual bool full() const { return false; }
  // The same of a prompt's activations.
  virtual bool full_of_chunks() const { return false; }
};

// What a request needs to know of its connection.
struct Client {
  std::uint64_t connection_id;
  std::shared_ptr<Replies> reply;
  wire::SessionId session;
  std::string identity;                   // who signed in: only they may resume the session
  Tap* tap;                               // null if the drafter needs none
  wire::Codec codec = wire::Codec::gzip;  // of a prompt's activations
  bool newest_row = false;                // verdicts bring it no rows of older positions
};

using TargetWork = std::variant<wire::Prefill, wire::Resume>;

inline std::uint32_t round_of(const TargetWork& request) {
  return std::visit([](const auto& r) { return r.round; }, request);
}

}  // namespace edgedraft
