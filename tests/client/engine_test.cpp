#include "client/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <latch>
#include <optional>
#include <thread>
#include <utility>

#include "client/engine/bundle_file.h"
#include "netsim/lab/cut_link.h"
#include "netsim/lab/paced_drafter.h"
#include "shared/net/client_link.h"
#include "shared/net/link_plug.h"
#include "tests/client/generation_rig.h"
#include "tests/support/expect.h"
#include "tests/support/failing_backend.h"
#include "tests/support/loopback_server.h"

// Many conversations of one engine with a whole server: each goes as if it were alone.
namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
using testing::DeviceFault;
using testing::FailingBackend;
using testing::Listener;
using testing::LoopbackServer;
using testing::Operation;
using testing::Tokens;

constexpr std::uint32_t kConversations = 8;
constexpr std::uint32_t kTokensMax = 40;
constexpr const char* kPrompts[kConversations] = {
    "Once upon a time there was a little dog",  "Tom and Lily went to the park. They saw",
    "Sara and her mom baked a cake. Sara said", "The sun was hot and the",
    "One day, a girl named Mia found a box.",   "Ben likes to count: one, two, three,",
    "\"Can I play with you?\" asked",           "In the garden there was a big tree, and"};

Instant soon() {
  return Clock::now() + 60s;
}

// Calls a function after each token.
struct Heard final : Listener {
  std::atomic<std::uint32_t> seen = 0;
  std::function<void()> on_seen = [] {};

  void on_token(std::uint32_t token, Provenance by) override {
    Listener::on_token(token, by);
    ++seen;
    on_seen();
  }
  void await_tokens(std::uint32_t count) const {
    const Instant deadline = soon();
    while (seen < count && Clock::now() < deadline) std::this_thread::yield();
    EXPECT_GE(seen, count);
  }
  // Prepares for the next answer.
  void forget() { Listener::operator=({}); }
};

// Conversations of one engine; the n-th is about the n-th prompt.
struct Talks {
  explicit Talks(SharedDrafters* drafters, SendGrid* grid = nullptr)
      : engine(drafters, nullptr, grid) {}

  Engine engine;
  Heard heard[kConversations];
  std::unique_ptr<EngineConversation> talk[kConversations];
};

class EngineTest : public ::testing::TestWithParam<std::optional<Hold>> {
 protected:
  EngineTest()
      : bundle_(BundleFile::open(EDGEDRAFT_MODELS "/moa-tli1.gguf", BundleUse::draft).value()),
        server_(start_server({})) {}

  static std::unique_ptr<LoopbackServer> start_server(std::chrono::milliseconds pass_pace) {
    return LoopbackServer::start({.model = EDGEDRAFT_MODELS "/target.gguf",
                                  .bundles = {EDGEDRAFT_MODELS "/moa-tli1.gguf"},
                                  .sessions_max = kConversations + 1,
                                  .pass_pace = pass_pace})
        .value();
  }

  LoadedDrafter load(std::unique_ptr<Backend> backend) {
    LoadedDrafter loaded{.backend = std::move(backend), .weights = nullptr};
    loaded.weights = bundle_.load_drafter(*loaded.backend);
    return loaded;
  }
  SharedDrafters::Loader loader() {
    return [this] {
      ++loads_;
      return load(make_cpu_backend({.threads = 1}));
    };
  }

  SharedDrafters& drafters() {
    if (!drafters_) drafters_.emplace(SharedDrafters::Options{.first = loader()});
    return *drafters_;
  }

  // Opens links to the server with this change of their options.
  auto opens(std::function<void(ClientLinkOptions&)> change) {
    return [this, change](std::function<void()> wake) -> Result<std::unique_ptr<TargetLink>> {
      ClientLinkOptions options = server_->link_options(bundle_);
      options.on_event = std::move(wake);
      change(options);
      return ClientLink::open(std::move(options)).value();
    };
  }

  Engine::ConversationParts parts(Heard& heard) {
    return {.open_link = opens([](ClientLinkOptions&) {}),
            .observer = heard,
            .is_end = [this](std::uint32_t token) { return bundle_.tokenizer().is_end(token); },
            .options = {.tree = TreeShape{.breadth = 3, .depth = 4, .nodes = 12},
                        .tokens_max = kTokensMax,
                        .context_count = bundle_.context_count(),
                        .sampling = {},
                        .deadline = 30s,
                        .resync = wire::ResyncPolicy::check,
                        .resync_wait = {},
                        .hold = GetParam()}};
  }

  Tokens prompt(std::uint32_t i) const { return bundle_.encode_raw(kPrompts[i]); }

  const Tokens& expected(std::uint32_t i) {
    if (!expected_[i].empty()) return expected_[i];
    Engine engine(nullptr);
    Heard heard;
    Engine::ConversationParts plain = parts(heard);
    plain.options.tree.reset();
    plain.options.hold = Hold::lockstep;
    const auto conversation = engine.open(std::move(plain)).value();
    conversation->answer(prompt(i));
    expected_[i] = outcome(*conversation).tokens;
    return expected_[i];
  }

  void begin(Talks& talks, std::uint32_t i) { begin(talks, i, parts(talks.heard[i])); }
  void begin(Talks& talks, std::uint32_t i, Engine::ConversationParts of) {
    talks.talk[i] = talks.engine.open(std::move(of)).value();
    talks.talk[i]->answer(prompt(i));
  }

  void expect_right(const Talks& talks, std::uint32_t i) {
    expect_right(*talks.talk[i], talks.heard[i], i);
  }
  static GenerationOutcome outcome(EngineConversation& conversation) {
    EXPECT_TRUE(conversation.wait_until(soon()));
    return *conversation.outcome().value();
  }
  // The answer is complete and equals the target's.
  void expect_right(EngineConversation& conversation, const Heard& heard, std::uint32_t i) {
    SCOPED_TRACE(kPrompts[i]);
    ASSERT_TRUE(conversation.wait_until(soon()));
    const auto outcome = conversation.outcome();
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ((*outcome)->tokens, expected(i));
    EXPECT_EQ((*outcome)->tokens, heard.tokens);
    EXPECT_EQ((*outcome)->provenance, heard.provenance);
    EXPECT_GT((*outcome)->link.bytes_up, 0u);
  }

  std::uint32_t loads_ = 0;
  BundleFile bundle_;
  std::unique_ptr<LoopbackServer> server_;
  std::optional<SharedDrafters> drafters_;
  Tokens expected_[kConversations];
};

// A link that reports back-pressure until released, and counts the hints that it receives.
class BackedUpLink final : public TargetLink {
 public:
  struct Seen {
    std::atomic<bool> backed_up = true;
    std::atomic<std::uint32_t> hint_messages = 0;
    std::atomic<std::uint32_t> while_backed_up = 0;
  };
  BackedUpLink(std::unique_ptr<TargetLink> link, Seen& seen)
      : link_(std::move(link)), seen_(seen) {}

  Result<void> send(TargetRequest request) override {
    const auto* hints = std::get_if<wire::OutgoingHints>(&request);
    if (hints != nullptr && !hints->hints.nodes().empty()) {
      ++seen_.hint_messages;
      if (seen_.backed_up) ++seen_.while_backed_up;
    }
    return link_->send(std::move(request));
  }
  Result<ClientEvent> wait_event(Instant deadline) override { return link_->wait_event(deadline); }
  LinkState state() const override { return link_->state(); }
  LinkStats stats() const override { return link_->stats(); }
  bool backed_up() const override { return seen_.backed_up; }
  void close() override { link_->close(); }

 private:
  std::unique_ptr<TargetLink> link_;
  Seen& seen_;
};

TEST_P(EngineTest, ParallelAnswersEqualPlainDecoding) {
  Talks talks(&drafters());
  for (std::uint32_t i = 0; i < kConversations; ++i) begin(talks, i);
  for (std::uint32_t i = 0; i < kConversations; ++i) expect_right(talks, i);
  EXPECT_EQ(loads_, 1u) << "weights are loaded once";
}

// The engine may be drafting, and the caller has other conversations to serve.
TEST_P(EngineTest, OpenLaterDoesNotWaitForDrafting) {
  Talks talks(&drafters());
  std::latch drafting(1);
  std::latch let_go(1);
  Engine::ConversationParts slow = parts(talks.heard[0]);
  slow.options.hold = Hold::lockstep;  // else the server may end before the first draft
  slow.decorate = [&](std::unique_ptr<Drafter> drafter) -> std::unique_ptr<Drafter> {
    const auto wait = [&, first = true](Instant) mutable {
      if (!std::exchange(first, false)) return;
      drafting.count_down();
      let_go.wait();
    };
    return std::make_unique<lab::PacedDrafter>(
        std::move(drafter), lab::DraftingPace{.step = 1ms},
        lab::PaceClock{.now = [] { return Clock::now(); }, .wait_until = wait});
  };
  begin(talks, 0, std::move(slow));
  drafting.wait();
  talks.talk[1] = talks.engine.open_later(parts(talks.heard[1]));
  talks.talk[1]->answer(prompt(1));
  EXPECT_FALSE(talks.talk[1]->over());
  // This conversation never opens.
  talks.talk[2] = talks.engine.open_later(parts(talks.heard[2]));
  talks.talk[2]->close_link();
  let_go.count_down();
  talks.talk[2].reset();
  for (std::uint32_t i = 0; i < 2; ++i) expect_right(talks, i);
}

TEST_P(EngineTest, ReportsLinkThatCannotBeCreated) {
  Engine engine(&drafters());
  Heard heard;
  Engine::ConversationParts of = parts(heard);
  of.open_link = [](std::function<void()>) -> Result<std::unique_ptr<TargetLink>> {
    return Error{Errc::bad_file, "no such certificate"};
  };
  EXPECT_TRUE(fails_with(engine.open(of), Errc::bad_file, "no such certificate"));
  const auto conversation = engine.open_later(std::move(of));
  conversation->answer(prompt(0));
  ASSERT_TRUE(conversation->wait_until(soon()));
  EXPECT_TRUE(fails_with(conversation->outcome(), Errc::bad_file, "no such certificate"));
}

TEST_P(EngineTest, AnswersEqualPlainDecodingOnSendGrid) {
  SendGrid grid;
  Talks talks(&drafters(), &grid);
  for (std::uint32_t i = 0; i < 3; ++i) {
    Engine::ConversationParts of = parts(talks.heard[i]);
    of.open_link = opens([&](ClientLinkOptions& options) { options.grid = &grid; });
    begin(talks, i, std::move(of));
  }
  talks.heard[0].await_tokens(1);
  {
    const SendGrid::Hold hold(grid);
    for (std::uint32_t i = 0; i < 2; ++i) expect_right(talks, i);
    // The next turn falls into another step.
    talks.heard[0].forget();
    talks.talk[0]->answer(prompt(2));
    expect_right(*talks.talk[0], talks.heard[0], 2);
  }
  expect_right(talks, 2);
}

TEST_P(EngineTest, CancelledConversationLeavesOthersUnaffected) {
  // Slow, so that the answer is still running when it is cancelled.
  server_ = start_server(10ms);
  Talks talks(&drafters());
  for (std::uint32_t i = 0; i < kConversations; ++i) begin(talks, i);
  EngineConversation& cut = *talks.talk[1];
  talks.heard[1].await_tokens(1);
  cut.cancel();
  const GenerationOutcome begun = outcome(cut);
  EXPECT_EQ(begun.end, GenerationEnd::cancelled);
  const Tokens& whole = expected(1);
  ASSERT_LT(begun.tokens.size(), whole.size());
  EXPECT_TRUE(std::equal(begun.tokens.begin(), begun.tokens.end(), whole.begin()));
  for (std::uint32_t i = 0; i < kConversations; ++i) {
    if (i != 1) expect_right(talks, i);
  }
  talks.heard[1].forget();
  cut.answer(prompt(1));
  expect_right(talks, 1);
}

TEST_P(EngineTest, ConversationWithCutLinkContinuesOffline) {
  static constexpr std::uint32_t kCut = 5;
  Talks talks(&drafters());
  for (std::uint32_t i = 0; i < kConversations; ++i) {
    Engine::ConversationParts of = parts(talks.heard[i]);
    if (i == 3) {
      of.open_link =
          [open = of.open_link](std::function<void()> wake) -> Result<std::unique_ptr<TargetLink>> {
        return std::make_unique<lab::CutLink>(open(std::move(wake)).value(), kCut, "cut");
      };
    }
    begin(talks, i, std::move(of));
  }
  for (std::uint32_t i = 0; i < kConversations; ++i) {
    if (i != 3) expect_right(talks, i);
  }
  const GenerationOutcome alone = outcome(*talks.talk[3]);
  EXPECT_EQ(std::ranges::count(alone.provenance, Provenance::verified), kCut);
  EXPECT_GT(std::ranges::count(alone.provenance, Provenance::offline), 0);
  EXPECT_TRUE(std::equal(alone.tokens.begin(), alone.tokens.begin() + kCut, expected(3).begin()));
}

TEST_P(EngineTest, SendsNoHintsUnderBackPressure) {
  if (GetParam() == Hold::lockstep) return;  // it has no hints
  // Each token is slow enough for hints in either half.
  server_ = start_server(10ms);
  BackedUpLink::Seen seen;
  Heard heard;
  Engine engine(&drafters());
  Engine::ConversationParts held = parts(heard);
  held.open_link = [&seen, open = held.open_link](
                       std::function<void()> wake) -> Result<std::unique_ptr<TargetLink>> {
    auto link = open(std::move(wake));
    if (!link) return link.error();
    return std::make_unique<BackedUpLink>(std::move(*link), seen);
  };
  const auto conversation = engine.open(std::move(held)).value();
  conversation->answer(prompt(0));
  heard.await_tokens(10);
  EXPECT_EQ(seen.hint_messages, 0u);
  seen.backed_up = false;
  expect_right(*conversation, heard, 0);
  EXPECT_GT(seen.hint_messages, 0u);
  EXPECT_EQ(seen.while_backed_up, 0u);
}

TEST_P(EngineTest, CheckedAnswerStatsCoverWholeAnswer) {
  server_ = start_server(10ms);
  LinkPlug plug;
  Heard heard;
  heard.on_seen = [&] {
    if (heard.seen == 5) plug.put(false);
  };
  Engine engine(&drafters());
  Engine::ConversationParts of = parts(heard);
  of.open_link = opens([&](ClientLinkOptions& options) { options.plug = &plug; });
  const auto conversation = engine.open(std::move(of)).value();
  conversation->answer(prompt(0));
  const GenerationOutcome alone = outcome(*conversation);
  ASSERT_GT(std::ranges::count(alone.provenance, Provenance::offline), 0);
  ASSERT_GT(alone.link.bytes_up, 0u);
  plug.put(true);
  std::optional<GenerationOutcome> checked;
  for (const Instant deadline = soon(); !checked && Clock::now() < deadline;) {
    conversation->check();
    ASSERT_TRUE(conversation->wait_until(soon()));
    checked = conversation->outcome().value();
    if (!checked) std::this_thread::sleep_for(5ms);
  }
  ASSERT_TRUE(checked);
  EXPECT_EQ(std::ranges::count(checked->provenance, Provenance::offline), 0);
  EXPECT_EQ(checked->link.reconnects, 1u);
  const LinkStats all = conversation->link_stats();
  EXPECT_LT(all.bytes_up - checked->link.bytes_up, alone.link.bytes_up)
      << "bytes from before the check are missing";

  conversation->answer(prompt(1));
  EXPECT_EQ(outcome(*conversation).link.reconnects, 0u);
}

// Its handshake would be cut at a time that depends on the private text.
TEST_P(EngineTest, ConnectsOnlyForAnswersThatMayBeSent) {
  const auto alone =
      BundleFile::open(EDGEDRAFT_MODELS "/independent.gguf", BundleUse::draft).value();
  SharedDrafters writers({.first = [&alone] {
    LoadedDrafter loaded{.backend = make_cpu_backend({.threads = 1}), .weights = nullptr};
    loaded.weights = alone.load_drafter(*loaded.backend);
    return loaded;
  }});
  Engine engine(&drafters(), &writers);
  Heard heard;
  Engine::ConversationParts of = parts(heard);
  of.open_link = opens([](ClientLinkOptions& options) { options.connects_later = true; });
  of.connects_first = false;
  const auto conversation = engine.open(std::move(of)).value();
  conversation->answer(
      {1, 2, 3},
      GenerationTerms{.tokens_max = 4, .route = WritingSide::device, .is_private = true});
  EXPECT_EQ(outcome(*conversation).tokens.size(), 4u);
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(conversation->link_stats().bytes_up, 0u);
  heard.forget();
  conversation->answer(prompt(0), GenerationTerms{.tokens_max = kTokensMax});
  expect_right(*conversation, heard, 0);
}

// Its drafter needs the target, and refuses.
TEST_P(EngineTest, ConversationWithoutServerLeavesOthersUnaffected) {
  Talks talks(&drafters());
  for (std::uint32_t i = 0; i < 2; ++i) {
    Engine::ConversationParts of = parts(talks.heard[i]);
    if (i == 0) {
      // Nothing listens there.
      of.open_link = opens([](ClientLinkOptions& options) { options.port = "1"; });
    }
    begin(talks, i, std::move(of));
  }
  ASSERT_TRUE(talks.talk[0]->wait_until(soon()));
  EXPECT_TRUE(fails_with(talks.talk[0]->outcome(), Errc::link_down));
  expect_right(talks, 1);
}

TEST_P(EngineTest, ClosedConversationLeavesOthersUnaffected) {
  Talks talks(&drafters());
  for (std::uint32_t i = 0; i < kConversations; ++i) begin(talks, i);
  talks.heard[2].await_tokens(1);
  talks.talk[2].reset();
  talks.talk[6].reset();
  for (std::uint32_t i = 0; i < kConversations; ++i) {
    if (talks.talk[i]) expect_right(talks, i);
  }
  talks.heard[2].forget();
  begin(talks, 2);
  expect_right(talks, 2);
}

// Two turns each; the second prompt contains the first answer.
TEST_P(EngineTest, SecondTurnEqualsFreshConversation) {
  Talks talks(&drafters());
  for (std::uint32_t i = 0; i < 2; ++i) begin(talks, i);
  for (std::uint32_t i = 0; i < 2; ++i) {
    EngineConversation& talk = *talks.talk[i];
    expect_right(talks, i);
    Tokens next = prompt(i);
    next.insert(next.end(), expected(i).begin(), expected(i).end());
    const Tokens more = bundle_.encode_raw(" And then");
    next.insert(next.end(), more.begin(), more.end());
    talks.heard[i].forget();
    talk.answer(next);
    Heard heard;
    const auto fresh = talks.engine.open(parts(heard)).value();
    fresh->answer(next);
    EXPECT_EQ(outcome(talk).tokens, outcome(*fresh).tokens);
    talk.check();
    ASSERT_TRUE(talk.wait_until(soon()));
    EXPECT_FALSE(talk.outcome().value()) << "nothing to check";
  }
}

// The device is lost during an answer: all conversations move to the other one.
TEST_P(EngineTest, ReplacesLostDeviceForAllAndReportsOnce) {
  DeviceFault fault{.operation = Operation::top_k, .n = 10};
  std::vector<std::string> failures;
  SharedDrafters drafters(
      {.first =
           [&] {
             return load(std::make_unique<FailingBackend>(make_cpu_backend({.threads = 1}), fault));
           },
       .second = loader(),
       .on_failure = [&](const std::string& why) { failures.push_back(why); }});
  Talks talks(&drafters);
  for (std::uint32_t i = 0; i < kConversations; ++i) begin(talks, i);
  for (std::uint32_t i = 0; i < kConversations; ++i) expect_right(talks, i);
  EXPECT_TRUE(fault.fired);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_TRUE(contains(failures[0], "device lost"));
  EXPECT_EQ(loads_, 1u) << "weights are loaded once on the second device too";
}

class LostDrafter final : public Drafter {
 public:
  explicit LostDrafter(std::unique_ptr<Drafter> drafter) : drafter_(std::move(drafter)) {}
  std::uint32_t token_count() const override { return drafter_->token_count(); }
  void append(std::span<const std::uint32_t> tokens) override { drafter_->append(tokens); }
  void truncate(std::uint32_t count) override { drafter_->truncate(count); }
  std::uint32_t activation_cols() const override { return drafter_->activation_cols(); }
  bool grow(TreeGrowth&, const GrowthBudget&) override { throw DeviceError("no device is left"); }
  std::span<const float> next_logits() override { throw DeviceError("no device is left"); }

 private:
  std::unique_ptr<Drafter> drafter_;
};

TEST_P(EngineTest, ConversationWithoutDeviceFailsAlone) {
  Talks talks(&drafters());
  for (std::uint32_t i = 0; i < 3; ++i) {
    Engine::ConversationParts of = parts(talks.heard[i]);
    if (i == 1) {
      of.decorate = [](std::unique_ptr<Drafter> drafter) {
        return std::make_unique<LostDrafter>(std::move(drafter));
      };
    }
    begin(talks, i, std::move(of));
  }
  expect_right(talks, 0);
  expect_right(talks, 2);
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_TRUE(talks.talk[1]->wait_until(soon()));
    EXPECT_TRUE(fails_with(talks.talk[1]->outcome(), Errc::io, "no device is left"));
    talks.talk[1]->answer(prompt(1));  // it stays lost without affecting the others
  }
}

INSTANTIATE_TEST_SUITE_P(Links, EngineTest,
                         ::testing::Values(Hold::lockstep, Hold::none, Hold::economy, std::nullopt),
                         [](const auto& test) {
                           return test.param ? std::string(to_string(*test.param)) : "auto";
                         });

}  // namespace
}  // namespace edgedraft::client
