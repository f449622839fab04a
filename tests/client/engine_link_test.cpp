// Interaction of an engine and a link on separate threads.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <utility>
#include <variant>

#include "client/engine/bundle_file.h"
#include "client/engine/engine.h"
#include "shared/net/client_link.h"
#include "tests/client/generation_rig.h"
#include "tests/support/expect.h"
#include "tests/support/loopback_server.h"
#include "tests/support/outgoing.h"

namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
using testing::Listener;

// A link whose close() wakes the engine from another thread and waits for that, as with a lock
// held.
class WakingLink final : public TargetLink {
 public:
  WakingLink(std::function<void()> wake, std::atomic<bool>& woke)
      : wake_(std::move(wake)), woke_(woke) {}

  Result<void> send(TargetRequest) override { return Error{Errc::link_down, "it never was up"}; }
  Result<ClientEvent> wait_event(Instant) override {
    return Error{Errc::timed_out, "nothing came"};
  }
  LinkState state() const override { return LinkState::connecting; }
  LinkStats stats() const override { return {}; }
  bool backed_up() const override { return false; }
  void close() override {
    waking_ = std::async(std::launch::async, wake_);
    woke_ = waking_.wait_for(10s) == std::future_status::ready;
  }

 private:
  std::function<void()> wake_;
  std::atomic<bool>& woke_;
  std::future<void> waking_;  // ends before the link
};

TEST(EngineLinkTest, LinkMayWakeEngineDuringClose) {
  Engine engine(nullptr);
  Listener listener;
  std::atomic<bool> woke = false;
  const auto conversation =
      engine
          .open(
              {.open_link = [&](std::function<void()> wake) -> Result<std::unique_ptr<TargetLink>> {
                 return std::make_unique<WakingLink>(std::move(wake), woke);
               },
               .observer = listener,
               .is_end = [](std::uint32_t) { return false; },
               .options = {.tree = std::nullopt,
                           .tokens_max = 1,
                           .context_count = 0,
                           .sampling = {},
                           .deadline = 1s,
                           .resync = wire::ResyncPolicy::check,
                           .resync_wait = {}}})
          .value();
  conversation->close_link();
  EXPECT_TRUE(woke);
}

// Its users get the error, and the program continues.
TEST(EngineLinkTest, LinkStaysClosedAfterInternalFailure) {
  const auto server =
      testing::LoopbackServer::start({.model = EDGEDRAFT_MODELS "/target.gguf",
                                      .bundles = {EDGEDRAFT_MODELS "/moa-tli0.gguf"}})
          .value();
  const auto bundle = BundleFile::open(EDGEDRAFT_MODELS "/moa-tli0.gguf", BundleUse::draft).value();
  ClientLinkOptions options = server->link_options(bundle);
  int told = 0;
  options.on_event = [&told] {
    if (++told == 2) throw std::bad_alloc();
  };
  const auto link = ClientLink::open(std::move(options)).value();
  const auto welcomed = link->wait_event(Clock::now() + 30s);
  ASSERT_TRUE(welcomed && std::holds_alternative<Welcomed>(*welcomed));
  // The link's own handler refuses it without asking the server.
  ASSERT_TRUE(link->send(outgoing(wire::Prefill{.base_length = 4, .tokens = {5}})));
  const auto refused = link->wait_event(Clock::now() + 30s);
  ASSERT_TRUE(refused && std::holds_alternative<RequestRefused>(*refused));
  EXPECT_TRUE(fails_with(link->wait_event(Clock::now() + 30s), Errc::io, std::bad_alloc().what()));
  EXPECT_EQ(link->state(), LinkState::closed);
}

}  // namespace
}  // namespace edgedraft::client
