#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/passes/pass_loop.h"
#include "tests/protocol/support.h"
#include "tests/server/plain_answer.h"
#include "tests/server/toy_session.h"
#include "tests/support/heard_replies.h"
#include "tests/support/toy_models.h"

namespace edgedraft::testing {
using namespace server;

// The replies to a client since the test last read them.
struct Inbox final : HeardReplies {
  using HeardReplies::HeardReplies;

  std::uint32_t last_round = 0;
};

// Sessions that share the KV cache: PassLoop on a simulated clock.
class SessionMemoryTest : public ToyTargetTest<256> {
 protected:
  using Tokens = std::vector<std::uint32_t>;

  SessionParts parts() {
    return {.decoder = decoder_,
            .context_count = kContext,
            .is_end = [](std::uint32_t) { return false; },
            .kv_type = kv_type_};
  }
  std::uint64_t page_bytes() { return SessionStore::session_bytes(parts()) / kLeastPages; }

  PassLoop loop(std::uint32_t pages, std::uint32_t waiting_max = 64, Duration wait_max = {}) {
    return {parts(),
            {.sessions = {.sessions_max = 64,
                          .kv_bytes_max = pages * page_bytes(),
                          .waiting_max = waiting_max},
             .wait_max = wait_max,
             .metrics = metrics_},
            [this] { return now_; }};
  }

  Client client(std::uint64_t connection_id, const std::string& identity = "someone") {
    inboxes_[connection_id] = std::make_shared<Inbox>(tap_ != nullptr);
    Client client = client_of(connection_id, inboxes_[connection_id], tap_);
    client.identity = identity;
    return client;
  }

  Tokens random_tokens(std::uint32_t count) { return testing::random_tokens(random_, count); }

  // The answer of a client alone after the prompt.
  Tokens alone(const Tokens& prompt, std::size_t count, const SamplingParams& sampling = {}) {
    return plain_answer(parts(), prompt, count, sampling);
  }

  wire::RunTerms lockstep() const {
    return {.credit = kContext, .rows = tap_ != nullptr, .hold = wire::Hold::lockstep};
  }
  void ask(PassLoop& loop, const Client& c, const Tokens& tokens, std::uint32_t base = 0,
           const wire::RunTerms& run = {}) {
    Inbox& inbox = *inboxes_.at(c.connection_id);
    loop.cancel(c.connection_id, inbox.last_round);
    const wire::Prefill request{.round = ++inbox.last_round,
                                .base_length = base,
                                .tokens = tokens,
                                .sampling = {.temperature = 0.0f, .seed = 0},
                                .run = run};
    inbox.length.asked(request);
    loop.begin(c, request, now_);
  }
  void ask_in_lockstep(PassLoop& loop, const Client& c, const Tokens& tokens) {
    ask(loop, c, tokens, 0, lockstep());
  }
  // Complete hints for the next pass of its run.
  void draft(PassLoop& loop, const Client& c, const std::vector<HintNode>& nodes = {}) {
    const Inbox& inbox = *inboxes_.at(c.connection_id);
    loop.hints(c.connection_id,
               {.round = inbox.last_round,
                .complete = true,
                .position = inbox.length.value(),
                .nodes = nodes},
               now_);
  }
  static void run(PassLoop& loop) {
    for (int i = 0; i < 1000 && !loop.idle(); ++i) loop.step();
    ASSERT_TRUE(loop.idle());
  }
  bool has_reply(const Client& c) {
    const Inbox& inbox = *inboxes_.at(c.connection_id);
    return !inbox.verdicts.empty() || !inbox.refusals.empty();
  }
  // The only reply, a verdict.
  wire::Verdict verdict(const Client& c) {
    Inbox& inbox = *inboxes_.at(c.connection_id);
    for (const Error& refusal : std::exchange(inbox.refusals, {})) {
      ADD_FAILURE() << refusal.message;
    }
    const auto verdicts = std::exchange(inbox.verdicts, {});
    EXPECT_EQ(verdicts.size(), 1u) << "replies to " << c.connection_id;
    return verdicts.empty() ? wire::Verdict{.next = ~0u} : verdicts.front();
  }
  std::uint32_t next(const Client& c) { return verdict(c).next; }
  // The next token after a request, or after a pass without drafts.
  std::uint32_t answered(PassLoop& loop, const Client& c, const Tokens& tokens,
                         std::uint32_t base = 0, const wire::RunTerms& terms = {}) {
    ask(loop, c, tokens, base, terms);
    run(loop);
    return next(c);
  }
  std::uint32_t continued(PassLoop& loop, const Client& c) {
    draft(loop, c);
    run(loop);
    return next(c);
  }
  // The only reply, a refusal.
  Error error(const Client& c) {
    Inbox& inbox = *inboxes_.at(c.connection_id);
    EXPECT_EQ(std::exchange(inbox.verdicts, {}).size(), 0u);
    const auto refusals = std::exchange(inbox.refusals, {});
    EXPECT_EQ(refusals.size(), 1u) << "replies to " << c.connection_id;
    return refusals.empty() ? Error{} : refusals.front();
  }

  std::uint64_t refused(Refusal why) const {
    return metrics_->refusals[static_cast<std::size_t>(why)].value();
  }

  std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
  Instant now_{std::chrono::hours(1)};
  Random random_{11};
  std::map<std::uint64_t, std::shared_ptr<Inbox>> inboxes_;
  Tap* tap_ = nullptr;
  DType kv_type_ = DType::f32;
};

}  // namespace edgedraft::testing
