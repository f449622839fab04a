#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "server/sessions/target_session.h"
#include "shared/drafting/tap.h"
#include "shared/protocol/server_protocol.h"
#include "shared/protocol/target_link.h"

namespace edgedraft::testing {
using namespace server;

// The fault at the n-th request (1, 2, ...) of a LocalLink; 0: before the first.
struct LinkFault {
  enum class Kind : std::uint8_t {
    lost_request,  // the connection ends before the server reads the request
    lost_answer,   // the connection ends after the server has done the work
    silence,       // the answer is late
    forgotten,     // the server has forgotten every session
    refused,       // the server is full
    replaced,      // as lost_request, then a server with another model answers
    forgetful,     // the server reports for every prompt that it does not know the session
  };
  std::uint32_t request;
  Kind kind;
  // Calls of wait_event until the connection is back or the answer arrives.
  std::uint32_t wait_calls;
};

// A server's sessions on one decoder, in the test's process.
class LocalTarget {
 public:
  struct Parts {
    Decoder& decoder;
    Tap* tap;  // may be null
    std::uint32_t context_count;
    std::function<bool(std::uint32_t)> is_end;
    DType kv_type = DType::f32;
  };
  explicit LocalTarget(const Parts& parts) : parts_(parts) {}

  const Parts& parts() const { return parts_; }
  TargetSession& make(const wire::SessionId& id);
  TargetSession* find(const wire::SessionId& id);
  void forget() { sessions_.clear(); }
  wire::SessionId next_id();
  ActivationLayout layout() const;

 private:
  Parts parts_;
  std::map<wire::SessionId, TargetSession> sessions_;
  std::uint8_t ids_ = 0;
};

using SeenRequest = std::variant<wire::Prefill, wire::Resume, wire::Hints, CancelRequest>;

// A TargetLink without network: both halves of the protocol and a target in one thread, their bytes
// passed on at once. Time and faults depend only on the calls of wait_event, so a run repeats
// exactly. Each call takes a millisecond and does the server's work up to the next event; without
// an event it waits until its deadline. Runs are held in lockstep.
class LocalLink final : public TargetLink {
 public:
  struct Options {
    LocalTarget& target;
    Instant& now;
    std::uint32_t rows_a_chunk = 7;
    bool holds_rows_back = false;  // a prompt's activations never arrive
    // Calls of wait_event after a prompt's verdict until its activations arrive; 0: at once.
    std::uint32_t rows_after_calls = 0;
    std::vector<LinkFault> faults = {};
    std::function<void(const SeenRequest&)> on_request = [](const SeenRequest&) {};
  };
  explicit LocalLink(Options options);

  Result<void> send(TargetRequest request) override;
  Result<ClientEvent> wait_event(Instant deadline) override;
  LinkState state() const override { return down_ ? LinkState::connecting : LinkState::online; }
  LinkStats stats() const override;
  bool backed_up() const override { return false; }
  // Ends a `replaced` fault: the first server answers again.
  void try_again() override;
  void close() override { cut(~0u); }

  // A cut connection comes back at the next call of wait_event.
  void end_outage() { outage_calls_ = std::min(outage_calls_, 1u); }

  std::uint32_t request_count() const { return request_count_; }
  // Chunks of prompt activations delivered so far.
  std::uint32_t chunk_count() const { return chunk_count_; }

 private:
  struct RowsOwed {
    std::uint32_t round;
    std::uint32_t first;
    std::uint32_t end;
  };
  struct Run {
    std::uint32_t round;
    wire::RunTerms terms;
  };
  using Job = std::variant<wire::Prefill, wire::Resume, wire::Hints, RowsOwed>;

  Result<ClientEvent> hand_out(ClientEvent event);
  void connect();
  void cut(std::uint32_t wait_calls);
  // Passes bytes to the server and its events to jobs, and bytes back.
  void pass_bytes();
  void take(ServerEvent event);
  void run_job();
  void work(const wire::Prefill& request);
  void work(const wire::Resume& request);
  void work(const wire::Hints& hints);
  void work(const RowsOwed& owed);
  void verify(const DraftTree& tree);
  void answer(TargetSession& session, const PrefillRequest& request, std::uint32_t round,
              std::uint32_t rows_from, const wire::RunTerms& terms);
  Bytes rows(const TargetSession& session, std::uint32_t first, std::uint32_t count);
  void apply(const LinkFault& fault);

  Options options_;
  std::optional<ClientProtocol> client_;
  std::optional<ServerProtocol> server_;
  wire::SessionId session_{};          // the connection's
  wire::SessionId offered_session_{};  // as offered
  std::deque<Job> jobs_;
  std::optional<RowsOwed> late_rows_;
  std::uint32_t late_calls_ = 0;  // calls of wait_event left until they arrive
  bool down_ = true;
  bool down_told_ = true;
  bool refusing_ = false;
  bool forgetful_ = false;
  bool replaced_ = false;
  std::uint32_t outage_calls_ = 0;
  std::uint32_t silent_calls_ = 0;
  std::uint32_t request_count_ = 0;
  std::uint32_t chunk_count_ = 0;
  std::uint32_t connects_ = 0;
  std::optional<Run> run_;
  TrafficStats past_traffic_;
};

}  // namespace edgedraft::testing
