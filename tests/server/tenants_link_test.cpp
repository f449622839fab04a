// Tenants that sign in over TLS.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/engine/bundle_file.h"
#include "server/program/tenants.h"
#include "shared/net/client_link.h"
#include "tests/support/expect.h"
#include "tests/support/loopback_server.h"
#include "tests/support/outgoing.h"

namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
using Tokens = std::vector<std::uint32_t>;

class TenantsLinkTest : public ::testing::Test {
 protected:
  static server::SignIn listed(const std::string& text) {
    server::SignIn sign_in;
    sign_in.tenants = server::Tenants::parse(text, "tenants.toml").value();
    return sign_in;
  }

  void start(const std::string& tenants) {
    server_ = testing::LoopbackServer::start({.model = EDGEDRAFT_MODELS "/target.gguf",
                                              .bundles = {EDGEDRAFT_MODELS "/moa-tli1.gguf"},
                                              .sessions_max = 8,
                                              .sign_in = listed(tenants),
                                              .wall_time = [this] { return wall_time_.load(); }})
                  .value();
  }

  std::unique_ptr<ClientLink> connect(const std::string& token) {
    ClientLinkOptions options = server_->link_options(bundle_);
    options.protocol.hello.token = token;
    return ClientLink::open(std::move(options)).value();
  }

  // Waits for the welcome.
  static Result<wire::SessionId> session_of(ClientLink& link) {
    const auto event = link.wait_event(Clock::now() + 10s);
    if (!event) return event.error();
    return std::get<Welcomed>(*event).welcome.session;
  }
  // Sends a request and returns the first token of its answer.
  template <class Request>
  static Result<std::uint32_t> answer(ClientLink& link, Request request) {
    if (auto sent = link.send(std::move(request)); !sent) return sent.error();
    for (;;) {
      const auto event = link.wait_event(Clock::now() + 10s);
      if (!event) return event.error();
      if (const auto* verdict = std::get_if<VerdictReceived>(&*event)) return verdict->verdict.next;
      if (const auto* refused = std::get_if<RequestRefused>(&*event)) return refused->error;
    }
  }
  static Result<std::uint32_t> ask(ClientLink& link) {
    return answer(link, outgoing(wire::Prefill{.tokens = kPrompt}));
  }

  inline static const Tokens kPrompt{5, 6, 7};
  std::atomic<server::WallTime> wall_time_ = server::WallTime(1'000'000s);
  BundleFile bundle_ =
      BundleFile::open(EDGEDRAFT_MODELS "/moa-tli1.gguf", BundleUse::draft).value();
  std::unique_ptr<testing::LoopbackServer> server_;
};

TEST_F(TenantsLinkTest, ServesOnlyListedTokens) {
  start("[[tenant]]\nname = 'a'\ntoken = 'right'\n");
  const auto link = connect("right");
  ASSERT_TRUE(session_of(*link));
  EXPECT_TRUE(ask(*link));
  EXPECT_TRUE(fails_with(session_of(*connect("wrong")), Errc::unauthorized, "wrong token"));
  EXPECT_TRUE(fails_with(session_of(*connect("")), Errc::unauthorized, "requires a token"));
}

TEST_F(TenantsLinkTest, RefusesExpiredTenantAtNextRequest) {
  start("[[tenant]]\nname = 'a'\ntoken = 'right'\nexpires = 1970-01-12T13:46:41Z\n");
  const auto link = connect("right");
  ASSERT_TRUE(session_of(*link));
  EXPECT_TRUE(ask(*link));
  wall_time_ = wall_time_.load() + 1s;
  EXPECT_TRUE(fails_with(ask(*link), Errc::unauthorized, "expired on 1970-01-12 13:46 UTC"));
  EXPECT_EQ(link->state(), LinkState::closed);
  EXPECT_TRUE(fails_with(session_of(*connect("right")), Errc::unauthorized, "expired"));
}

TEST_F(TenantsLinkTest, ReloadKeepsSessionsOfListedTenants) {
  const std::string removed = "[[tenant]]\nname = 'b'\ntoken = 'other'\n";
  start("[[tenant]]\nname = 'a'\ntoken = 'old'\n" + removed);
  const auto stays = connect("old");
  const auto session = session_of(*stays);
  ASSERT_TRUE(session);
  const auto next = ask(*stays);
  ASSERT_TRUE(next);
  const auto leaves = connect("other");
  ASSERT_TRUE(session_of(*leaves));

  server_->set_sign_in(listed("[[tenant]]\nname = 'a'\ntoken = 'new'\n"));
  EXPECT_TRUE(fails_with(ask(*leaves), Errc::unauthorized, "tenant b is no longer listed"));
  EXPECT_TRUE(fails_with(session_of(*connect("old")), Errc::unauthorized, "wrong token"));
  const auto again = connect("new");
  ASSERT_TRUE(session_of(*again));
  Tokens verified = kPrompt;
  verified.push_back(*next);
  EXPECT_TRUE(answer(
      *again,
      outgoing(wire::Resume{.session = *session, .verified_length = 4, .tokens = {8}}, verified)))
      << "the session outlives its tenant's token";
  EXPECT_TRUE(ask(*stays)) << "an open connection outlives its tenant's token";
}

TEST_F(TenantsLinkTest, RefusesTenantThatUsedUpItsTokensWithWait) {
  start("[[tenant]]\nname = 'a'\ntoken = 'x'\ntokens_per_minute = 1\n");
  const auto link = connect("x");
  ASSERT_TRUE(session_of(*link));
  EXPECT_TRUE(ask(*link));
  EXPECT_TRUE(fails_with(ask(*link), Errc::refused, "try again in"));
  EXPECT_EQ(link->state(), LinkState::online);
}

}  // namespace
}  // namespace edgedraft::client
