#include "tests/server/session_memory_rig.h"

// Which requests wait for memory, and which sessions are evicted.
namespace edgedraft::server {
namespace {

using testing::SessionMemoryTest;

// Memory for two prompts of 200 tokens (7 pages) and their drafts, but not for three.
class LineTest : public SessionMemoryTest {
 protected:
  static constexpr std::uint32_t kPages = 18;

  void fill(PassLoop& server) { fill(server, lockstep()); }
  void fill(PassLoop& server, const wire::RunTerms& terms) {
    for (const Client* c : {&first_, &second_}) {
      const Tokens& prompt = c == &first_ ? prompts_[0] : prompts_[1];
      EXPECT_EQ(answered(server, *c, prompt, 0, terms), alone(prompt, 1)[0]);
      now_ += std::chrono::milliseconds(10);
    }
  }
  // The waiting client gets its answer with the next pass.
  void expect_admitted(PassLoop& server, const Client& c, const Tokens& prompt) {
    server.step();
    run(server);
    EXPECT_EQ(next(c), alone(prompt, 1)[0]);
  }

  std::vector<Tokens> prompts_ = {random_tokens(200), random_tokens(200), random_tokens(200),
                                  random_tokens(200)};
  Client first_ = client(1);
  Client second_ = client(2);
  Client third_ = client(3);
  Client fourth_ = client(4);
};

TEST_F(LineTest, PromptWaitsUntilAClientLeaves) {
  PassLoop server = loop(kPages);
  fill(server);
  ask(server, third_, prompts_[2]);
  ask(server, fourth_, prompts_[3]);
  run(server);
  EXPECT_EQ(server.waiting_count(), 2u);
  EXPECT_FALSE(has_reply(third_));
  // Active sessions continue.
  EXPECT_EQ(continued(server, first_), alone(prompts_[0], 2)[1]);
  server.end(2);
  expect_admitted(server, third_, prompts_[2]);
  EXPECT_FALSE(has_reply(fourth_));
  server.end(3);
  expect_admitted(server, fourth_, prompts_[3]);
  EXPECT_EQ(server.waiting_count(), 0u);
}

TEST_F(LineTest, RefusesTimedOutPromptAndKeepsOthers) {
  PassLoop server = loop(kPages, 64, std::chrono::milliseconds(500));
  fill(server);
  ask(server, third_, prompts_[2]);
  now_ += std::chrono::milliseconds(300);
  ask(server, fourth_, prompts_[3]);
  now_ += std::chrono::milliseconds(300);
  server.step();
  EXPECT_EQ(error(third_).code, Errc::refused);
  EXPECT_EQ(refused(Refusal::deadline), 1u);
  EXPECT_EQ(server.waiting_count(), 1u);
  server.end(1);
  expect_admitted(server, fourth_, prompts_[3]);
  // It may send the request again.
  server.end(4);
  EXPECT_EQ(answered(server, third_, prompts_[2]), alone(prompts_[2], 1)[0]);
}

TEST_F(LineTest, DropsCancelledAndDepartedPrompts) {
  PassLoop server = loop(kPages);
  fill(server);
  ask(server, third_, prompts_[2]);
  ask(server, fourth_, prompts_[3]);
  server.cancel(3, 1);
  EXPECT_EQ(server.waiting_count(), 1u);
  server.end(4);
  EXPECT_EQ(server.waiting_count(), 0u);
  // The cancelled client sends a new request and gets its turn.
  ask(server, third_, prompts_[3]);
  server.end(1);
  expect_admitted(server, third_, prompts_[3]);
}

TEST_F(LineTest, EvictsLongestIdleSessionAndAcceptsResend) {
  PassLoop server = loop(kPages);
  fill(server, {});
  ask(server, third_, prompts_[2]);
  run(server);
  EXPECT_FALSE(has_reply(third_));
  now_ += std::chrono::milliseconds(985);  // the first is idle for more than a second
  expect_admitted(server, third_, prompts_[2]);
  ask(server, first_, {}, 201);
  EXPECT_EQ(error(first_).code, Errc::session_unknown);
  ask(server, first_, random_tokens(5), 201);
  EXPECT_EQ(error(first_).code, Errc::session_unknown);
  EXPECT_EQ(answered(server, second_, {}, 201), alone(prompts_[1], 2)[1]);

  // Its answer is the same whether or not its pages were evicted.
  now_ += std::chrono::seconds(2);
  EXPECT_EQ(answered(server, first_, prompts_[0]), alone(prompts_[0], 1)[0]);
}

TEST_F(LineTest, AdmitsLongWaitingPromptWithoutIdleSessions) {
  PassLoop server = loop(kPages);
  fill(server);
  ask(server, third_, prompts_[2]);
  const Instant begun = now_;
  while (!has_reply(third_)) {
    ASSERT_LT(now_ - begun, std::chrono::seconds(6));
    for (const Client* c : {&first_, &second_}) {
      if (has_reply(third_)) break;
      draft(server, *c);
      run(server);
      if (now_ - begun < std::chrono::seconds(4)) next(*c);
    }
    now_ += std::chrono::milliseconds(500);
    server.step();
    run(server);
  }
  EXPECT_GE(now_ - begun, std::chrono::seconds(5));
  EXPECT_EQ(next(third_), alone(prompts_[2], 1)[0]);
}

}  // namespace
}  // namespace edgedraft::server
