#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "server/passes/pass_loop.h"
#include "shared/protocol/server_protocol.h"
#include "tests/protocol/taken_messages.h"
#include "tests/support/outgoing.h"

namespace edgedraft::testing {
using namespace server;

// A server's end of a connection, a ServerProtocol whose events go to a PassLoop, and a client that
// sends arbitrary messages. Replaces Listener, Application and Scheduler without threads, sockets
// or time.
class RawClient {
 public:
  struct Options {
    std::uint64_t id;
    std::uint32_t context_count;
    Tap* tap = nullptr;
    bool newest_row = false;
    std::string identity = "someone";
    Quota quota{};
  };

  // Signs in.
  RawClient(PassLoop& loop, const Options& options, std::function<Instant()> now)
      : loop_(loop), now_(std::move(now)), protocol_({}, now_()) {
    wire::Welcome welcome{.context_count = options.context_count, .nodes_max = kDraftNodesMax};
    welcome.session[0] = static_cast<std::byte>(options.id);
    welcome.session[1] = static_cast<std::byte>(options.id >> 8);
    if (options.tap != nullptr) {
      const auto groups = options.tap->scale_groups();
      welcome.scale_groups.assign(groups.begin(), groups.end());
      welcome.newest_row = options.newest_row;
    }
    client_ = {.connection_id = options.id,
               .reply = std::make_shared<Connection>(*this),
               .session = welcome.session,
               .identity = options.identity,
               .tap = options.tap,
               .newest_row = options.newest_row,
               .quota = options.quota};
    EXPECT_TRUE(protocol_.receive(now_(), wire::encode(wire::Hello())));
    EXPECT_TRUE(protocol_.next_event());
    protocol_.accept(std::move(welcome));
    hear();
    heard.clear();
  }
  ~RawClient() { leave(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // Requests get the next round number, a Cancel the last one's. A Resume and hints carry the hash
  // of `verified`. Returns false if the connection was closed.
  bool send(wire::Message message, std::span<const std::uint32_t> verified = {}) {
    if (gone_) return false;
    std::visit([&](auto& m) { number(m); }, message);
    const auto* resume = std::get_if<wire::Resume>(&message);
    const auto* hints = std::get_if<wire::Hints>(&message);
    const auto request = resume != nullptr  ? wire::OutgoingMessage(outgoing(*resume, verified))
                         : hints != nullptr ? outgoing(*hints, verified)
                                            : outgoing(message);
    const Result<void> received = protocol_.receive(now_(), wire::encode(request));
    while (auto event = protocol_.next_event()) std::visit([&](const auto& e) { on(e); }, *event);
    if (!received) leave();
    hear();
    return !gone_;
  }
  // Complete hints for the next pass of a run under lockstep; no nodes mean plain decoding.
  bool complete(const std::vector<HintNode>& nodes = {}) {
    return send(wire::Hints{
        .round = round_, .complete = true, .position = protocol_.length(), .nodes = nodes});
  }
  void leave() {
    if (gone_) return;
    gone_ = true;
    loop_.end(client_.connection_id);
  }

  // Sets whether the client reads from the server.
  void reads(bool does) { reads_ = does; }
  // True once either side has closed the connection.
  bool gone() const { return gone_; }
  const Client& client() const { return client_; }
  const ServerProtocol& protocol() const { return protocol_; }
  std::uint32_t round() const { return round_; }

  // Messages from the server since the last clear, except pings and activations.
  std::vector<wire::Message> heard;
  std::vector<wire::Activations> activations;
  std::uint32_t verdict_count = 0;
  std::uint32_t refusal_count = 0;

 private:
  class Connection final : public Replies {
   public:
    explicit Connection(RawClient& of) : of_(of) {}
    void verdict(wire::Verdict verdict) override {
      of_.tell([&] { of_.protocol_.verdict(std::move(verdict)); });
    }
    void activations(wire::Activations chunk) override {
      of_.tell([&] { of_.protocol_.activations(std::move(chunk)); });
    }
    void refuse(std::uint32_t round, Error error) override {
      of_.tell([&] { of_.protocol_.refuse(round, error); });
    }
    bool full() const override { return !of_.reads_; }
    bool full_of_chunks() const override { return !of_.reads_; }

   private:
    RawClient& of_;
  };

  template <class Act>
  void tell(const Act& act) {
    if (gone_) return;
    act();
    hear();
  }
  void hear() {
    for (wire::Message& message : take_messages(protocol_)) {
      if (auto* chunk = std::get_if<wire::Activations>(&message)) {
        activations.push_back(std::move(*chunk));
        continue;
      }
      verdict_count += std::holds_alternative<wire::Verdict>(message);
      refusal_count += std::holds_alternative<wire::ErrorReport>(message);
      heard.push_back(std::move(message));
    }
  }

  template <class M>
  void number(M& message) {
    if constexpr (std::is_same_v<M, wire::Prefill> || std::is_same_v<M, wire::Resume>) {
      message.round = ++round_;
    }
    if constexpr (std::is_same_v<M, wire::Cancel>) message.round = round_;
  }
  void on(const HelloReceived&) {}
  void on(const HintsReceived& event) { loop_.hints(client_.connection_id, event.hints, now_()); }
  void on(const RoundCancelled& e) { loop_.cancel(client_.connection_id, e.round); }
  void on(const PrefillRequested& e) { loop_.begin(client_, e.request, now_()); }
  void on(const ResumeRequested& e) { loop_.begin(client_, e.request, now_()); }

  PassLoop& loop_;
  std::function<Instant()> now_;
  ServerProtocol protocol_;
  Client client_{};
  std::uint32_t round_ = 0;
  bool reads_ = true;
  bool gone_ = false;
};

}  // namespace edgedraft::testing
