#include "client/generation/online/server_view.h"

#include <gtest/gtest.h>

namespace edgedraft::client {
namespace {

wire::Welcome welcome_as(std::uint8_t number) {
  wire::Welcome welcome;
  welcome.session[0] = std::byte{number};
  return welcome;
}

TEST(ServerViewTest, WelcomeReopensClosedLink) {
  ServerView server;
  server.welcomed(welcome_as(1));
  server.link_closed = true;
  server.lost({Errc::link_down, "it broke"});
  EXPECT_TRUE(server.link_closed);
  server.welcomed(welcome_as(2));
  EXPECT_FALSE(server.link_closed);
}

TEST(ServerViewTest, RefillsForgottenSessionUnderCurrentConnection) {
  ServerView server;
  server.welcomed(welcome_as(1));
  server.took_tokens(/*as_new_session=*/true);
  EXPECT_EQ(server.session, welcome_as(1).session);
  server.forgot();
  EXPECT_FALSE(server.session);
  server.took_tokens(/*as_new_session=*/true);
  EXPECT_EQ(server.session, welcome_as(1).session);
  // A session keeps its name across connections until it is forgotten.
  server.welcomed(welcome_as(2));
  server.took_tokens(/*as_new_session=*/false);
  EXPECT_EQ(server.session, welcome_as(1).session);
  server.forgot();
  server.took_tokens(/*as_new_session=*/true);
  EXPECT_EQ(server.session, welcome_as(2).session);
}

TEST(ServerViewTest, SessionStaysAtItsReplica) {
  ServerView server;
  wire::Welcome welcome = welcome_as(1);
  welcome.replica = "a";
  server.welcomed(welcome);
  server.took_tokens(/*as_new_session=*/true);
  server.count = 5;
  welcome.session = welcome_as(2).session;
  server.welcomed(welcome);
  EXPECT_EQ(server.session, welcome_as(1).session);
  EXPECT_EQ(server.count, 5u);
  welcome.replica = "b";
  server.welcomed(welcome);
  EXPECT_FALSE(server.session);
  EXPECT_EQ(server.count, 0u);
}

TEST(ServerViewTest, RemembersArithmeticOfEarlierTokens) {
  ServerView server;
  wire::Welcome welcome;
  for (const char* const told : {"", "x", "x"}) {
    welcome.arithmetic = told;
    server.welcomed(welcome);
    EXPECT_EQ(server.chosen_under, "") << told;
  }
  welcome.arithmetic = "y";
  server.welcomed(welcome);
  EXPECT_EQ(server.chosen_under, "x");
  welcome.arithmetic = "z";
  server.welcomed(welcome);
  EXPECT_EQ(server.chosen_under, "x") << "y has chosen nothing";
  welcome.arithmetic = "x";
  server.welcomed(welcome);
  EXPECT_EQ(server.chosen_under, "");
}

}  // namespace
}  // namespace edgedraft::client
