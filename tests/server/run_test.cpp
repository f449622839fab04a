// Runs: the server goes on by itself over hints that come whenever they like.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "server/passes/pass_loop.h"
#include "server/proposers/speculation.h"
#include "shared/base/prefix_hash.h"
#include "tests/protocol/support.h"
#include "tests/server/plain_answer.h"
#include "tests/server/raw_client.h"
#include "tests/support/toy_models.h"

namespace edgedraft {
namespace {

using namespace std::chrono_literals;
using testing::kToyEndToken;
using testing::kToyVocabulary;
using testing::RawClient;
using testing::ToyDecoder;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kContext = 160;
constexpr std::size_t kPromptCount = 6;
constexpr Duration kPassTime = 10ms;
constexpr Duration kRowTime = 100us;

// Rows that tell their position.
class PositionTap final : public Tap {
 public:
  std::span<const std::uint32_t> scale_groups() const override { return groups_; }
  void read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
            std::span<float> rows) override {
    EXPECT_LE(first + count, cache.length());
    for (std::uint32_t i = 0; i < count; ++i) rows[i] = static_cast<float>(first + i);
  }

 private:
  std::array<std::uint32_t, 1> groups_{1};
};

// A device that knows what it has been told, and draws hints from a text of its own choice.
class HintingClient {
 public:
  HintingClient(PassLoop& loop, const RawClient::Options& options, std::function<Instant()> now)
      : raw_(loop, options, std::move(now)) {}

  bool begin(const Tokens& prompt, const SamplingParams& sampling, const wire::RunTerms& run) {
    text_ = prompt;
    prompt_count_ = prompt.size();
    next_id_ = 1;
    return raw_.send(wire::Prefill{.tokens = prompt, .sampling = sampling, .run = run});
  }
  // Goes on behind what it knows, in a run of its own.
  bool go_on(const SamplingParams& sampling, const wire::RunTerms& run) {
    next_id_ = 1;
    return raw_.send(
        wire::Prefill{.base_length = raw_.session().length(), .sampling = sampling, .run = run});
  }

  // The server has forgotten the session: from all of its text.
  bool begin_anew(const wire::RunTerms& run) {
    next_id_ = 1;
    return raw_.send(wire::Prefill{.tokens = text_, .run = run});
  }

  // On a new connection: `known` of an earlier one's session, `offline` written since.
  bool resume(const wire::SessionId& session, const Tokens& known, const Tokens& offline,
              std::uint32_t credit) {
    text_ = known;
    offline_ = offline;
    prompt_count_ = kPromptCount;
    return raw_.send(wire::Resume{.session = session,
                                  .verified_length = static_cast<std::uint32_t>(known.size()),
                                  .tokens = offline,
                                  .run = {.credit = credit}},
                     known);
  }

  // Takes in what was heard. False if the answer has ended.
  bool listen() {
    for (const wire::Message& message : std::exchange(raw_.heard, {})) {
      const auto* verdict = std::get_if<wire::Verdict>(&message);
      if (verdict == nullptr) {
        ADD_FAILURE() << "no verdict";
        return false;
      }
      verdicts.push_back(*verdict);
      text_.insert(text_.end(), offline_.begin(), offline_.begin() + verdict->accepted_count);
      text_.insert(text_.end(), verdict->tokens.begin(), verdict->tokens.end());
      text_.push_back(verdict->next);
      EXPECT_EQ(text_.size(), verdict->length);
      if (verdict->ending != wire::Ending::none) ended_ = true;
    }
    return !ended_;
  }

  // A chain of hints for what may follow its text.
  wire::Hints chain(const Tokens& follows, std::uint8_t score = 1) {
    wire::Hints hints = credit(0);
    hints.first = next_id_;
    for (std::size_t i = 0; i < follows.size(); ++i) {
      hints.tokens.push_back(follows[i]);
      hints.parents.push_back(i == 0 ? 0 : 1);
      hints.scores.push_back(score);
    }
    next_id_ += static_cast<std::uint32_t>(follows.size());
    return hints;
  }
  wire::Hints credit(std::uint32_t credit) const {
    return {.round = raw_.round(),
            .credit = credit,
            .position = static_cast<std::uint32_t>(text_.size()),
            .prefix_hash = prefix_hash(text_)};
  }
  // `behind` is the text as it was when the hints were made.
  bool send(const wire::Hints& hints, const Tokens& behind) { return raw_.send(hints, behind); }
  bool send(const wire::Hints& hints) { return send(hints, text_); }

  Tokens answer() const {
    return Tokens(text_.begin() + static_cast<std::ptrdiff_t>(prompt_count_), text_.end());
  }
  const Tokens& text() const { return text_; }
  bool ended() const { return ended_; }
  std::uint32_t next_id() const { return next_id_; }
  RawClient& raw() { return raw_; }

  std::vector<wire::Verdict> verdicts;

 private:
  RawClient raw_;
  Tokens text_;
  Tokens offline_;  // that awaits the server's word
  std::size_t prompt_count_ = 0;
  std::uint32_t next_id_ = 1;
  bool ended_ = false;
};

class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    open({.metrics = metrics_});
    loop_->measure_costs(1s, {});
  }

  SessionParts parts() {
    return {.decoder = decoder_, .context_count = kContext, .is_end = [](std::uint32_t t) {
              return t == kToyEndToken;
            }};
  }

  void open(PassLoopOptions options) {
    clients_.clear();
    options.sessions.sessions_max = 64;
    // Time goes on with the passes.
    options.pace = [](std::uint32_t rows) { return kPassTime + rows * kRowTime; };
    options.wait_until = [this](Instant end) { now_ = std::max(now_, end); };
    options.on_session_fault = [](const std::string& why) { ADD_FAILURE() << why; };
    loop_.emplace(parts(), options, [this] { return now_; });
  }

  HintingClient& connect(Tap* tap = nullptr) {
    clients_.push_back(std::make_unique<HintingClient>(
        *loop_,
        RawClient::Options{
            .id = clients_.size() + 1, .context_count = kContext, .tap = tap, .version = 2},
        [this] { return now_; }));
    return *clients_.back();
  }

  // One of several whose plain answers have 30 tokens at least.
  Tokens prompt_of(std::size_t index) {
    static std::vector<Tokens> prompts;
    for (std::uint64_t seed = prompts.size(); prompts.size() <= index; ++seed) {
      Random random(seed);
      Tokens tokens(kPromptCount);
      for (auto& t : tokens) t = 3 + static_cast<std::uint32_t>(random.below(kToyVocabulary - 3));
      if (plain(tokens).size() >= 30) prompts.push_back(tokens);
    }
    return prompts[index];
  }
  Tokens plain(const Tokens& prompt, const SamplingParams& sampling = {}) {
    return testing::plain_answer(
        {decoder_, kContext, [](std::uint32_t t) { return t == kToyEndToken; }}, prompt, kContext,
        sampling);
  }
  // The `count` tokens of the plain answer behind what the client knows.
  Tokens right(const HintingClient& client, const Tokens& answer, std::size_t count) {
    const std::size_t known = std::min(client.answer().size(), answer.size());
    return Tokens(
        answer.begin() + static_cast<std::ptrdiff_t>(known),
        answer.begin() + static_cast<std::ptrdiff_t>(std::min(known + count, answer.size())));
  }

  void run_until_idle() {
    for (int i = 0; i < 2000 && !loop_->idle(); ++i) loop_->step();
  }
  std::uint64_t hints(HintFate fate) const {
    return metrics_->hints[static_cast<std::size_t>(fate)].value();
  }

  Instant now_{1h};
  ToyDecoder toy_{1};
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, kContext};
  std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
  std::optional<PassLoop> loop_;
  std::vector<std::unique_ptr<HintingClient>> clients_;
};

TEST_F(RunTest, WithoutHintsItIsPlainDecodingThatNobodyAskedForTwice) {
  HintingClient& client = connect();
  const Tokens prompt = prompt_of(1);
  ASSERT_TRUE(client.begin(prompt, {}, {.credit = kContext}));
  run_until_idle();
  EXPECT_FALSE(client.listen());
  EXPECT_EQ(client.answer(), plain(prompt));
  EXPECT_EQ(client.verdicts.size(), client.answer().size());
}

TEST_F(RunTest, RightHintsSavePassesAndWrongOnesNothingElse) {
  const Tokens prompt = prompt_of(1);
  const Tokens expected = plain(prompt);
  ASSERT_GT(expected.size(), 20u);
  for (const bool good : {true, false}) {
    HintingClient& client = connect();
    ASSERT_TRUE(client.begin(prompt, {}, {.credit = kContext}));
    const std::uint64_t before = loop_->count().passes;
    while (!client.ended()) {
      loop_->step();
      if (!client.listen()) break;
      Tokens follows = right(client, expected, 5);
      if (!good) std::ranges::reverse(follows);
      ASSERT_TRUE(client.send(client.chain(follows)));
    }
    EXPECT_EQ(client.answer(), expected);
    const std::uint64_t passes = loop_->count().passes - before;
    if (good) {
      EXPECT_LE(passes, expected.size() / 5 + 3);
    } else {
      EXPECT_LE(passes, expected.size() + 1);
    }
    client.raw().leave();
  }
}

TEST_F(RunTest, HintsMayComeBeforeTheFirstVerdict) {
  HintingClient& client = connect();
  const Tokens prompt = prompt_of(2);
  const Tokens expected = plain(prompt);
  ASSERT_TRUE(client.begin(prompt, {}, {.credit = kContext}));
  ASSERT_TRUE(client.send(client.chain(right(client, expected, 6))));
  loop_->step();  // the prompt
  loop_->step();
  client.listen();
  ASSERT_EQ(client.verdicts.size(), 2u);
  EXPECT_EQ(client.verdicts[1].tokens.size(), 5u);
  EXPECT_EQ(client.verdicts[1].hinted, 5u);
  EXPECT_EQ(client.verdicts[1].hints_seen, 6u);
}

TEST_F(RunTest, ItPausesWhereTheCreditEnds) {
  HintingClient& client = connect();
  const Tokens prompt = prompt_of(3);
  const Tokens expected = plain(prompt);
  ASSERT_TRUE(client.begin(prompt, {}, {.credit = 10}));
  ASSERT_TRUE(client.send(client.chain(right(client, expected, 20))));
  run_until_idle();
  EXPECT_TRUE(client.listen());
  EXPECT_EQ(client.text().size(), 10u);
  now_ += 1h;
  run_until_idle();
  ASSERT_TRUE(client.send(client.credit(kContext)));
  run_until_idle();
  EXPECT_FALSE(client.listen());
  EXPECT_EQ(client.answer(), expected);
}

TEST_F(RunTest, VerdictsBringTheRowsThatBecameValidIfTheyAreWanted) {
  PositionTap tap;
  HintingClient& client = connect(&tap);
  const Tokens prompt = prompt_of(1);
  const Tokens expected = plain(prompt);
  ASSERT_TRUE(client.begin(prompt, {}, {.credit = 20, .rows = true}));
  loop_->step();
  ASSERT_TRUE(client.listen());
  ASSERT_TRUE(client.send(client.chain(right(client, expected, 3))));
  loop_->step();
  client.listen();
  const wire::Verdict& verdict = client.verdicts.at(1);
  const std::uint32_t count = static_cast<std::uint32_t>(verdict.tokens.size()) + 1;
  EXPECT_EQ(count, 4u);
  const auto rows = dequantize_rows(ActivationLayout({1}), count, verdict.activations);
  ASSERT_TRUE(rows);
  for (std::uint32_t i = 0; i < count; ++i) {
    EXPECT_NEAR((*rows)[i], static_cast<float>(verdict.length - count - 1 + i), 0.1);
  }
}

TEST_F(RunTest, ACancelledRunStopsAndTheNextOneBuildsOnWhatIsKnown) {
  HintingClient& client = connect();
  const Tokens prompt = prompt_of(1);
  ASSERT_TRUE(client.begin(prompt, {}, {.credit = kContext}));
  for (int i = 0; i < 4; ++i) loop_->step();
  client.listen();
  ASSERT_TRUE(client.raw().send(wire::Cancel{}));
  const std::uint64_t passes = loop_->count().passes;
  run_until_idle();
  EXPECT_EQ(loop_->count().passes, passes);
  ASSERT_TRUE(client.go_on({}, {.credit = kContext}));
  run_until_idle();
  EXPECT_FALSE(client.listen());
  EXPECT_EQ(client.answer(), plain(prompt));
}

// The connection broke, the server had gone on, and so had the device.
TEST_F(RunTest, WhatWasWrittenOfflineIsHeldAgainstWhatWasDecidedOnCredit) {
  const Tokens prompt = prompt_of(1);
  const Tokens expected = plain(prompt);
  for (const std::size_t right_count : {0, 2, 5}) {
    open({.metrics = metrics_});
    HintingClient& before = connect();
    ASSERT_TRUE(
        before.begin(prompt, {}, {.credit = static_cast<std::uint32_t>(prompt.size()) + 10}));
    for (int i = 0; i < 3; ++i) loop_->step();
    ASSERT_TRUE(before.listen());
    const Tokens known = before.text();
    Tokens offline = right(before, expected, right_count);
    for (std::size_t i = right_count; i < 5; ++i) offline.push_back(4);
    run_until_idle();
    before.raw().leave();

    HintingClient& after = connect();
    const std::uint64_t passes = loop_->count().passes;
    ASSERT_TRUE(after.resume(before.raw().client().session, known, offline, kContext));
    ASSERT_TRUE(after.listen()) << "answered at once";
    EXPECT_EQ(loop_->count().passes, passes);
    EXPECT_EQ(after.verdicts.at(0).accepted_count, right_count);
    run_until_idle();
    EXPECT_FALSE(after.listen());
    EXPECT_EQ(after.answer(), expected);
    EXPECT_LT(after.verdicts.size(), prompt.size() + expected.size() - known.size() - right_count)
        << "what was decided is not decided anew, one pass a token";
  }
}

TEST_F(RunTest, WhatIsReservedIsRefused) {
  RawClient raw(*loop_, {.id = 99, .context_count = kContext, .version = 2},
                [this] { return now_; });
  loop_->begin(raw.client(), wire::Prefill{.round = 1, .tokens = {5}, .run = {.reserved = true}},
               now_);
  EXPECT_TRUE(loop_->idle()) << "nothing was begun";
  EXPECT_EQ(metrics_->refusals[static_cast<std::size_t>(Refusal::invalid)].value(), 1u);
}

TEST_F(RunTest, AClientThatDoesNotReadPausesItsRunAlone) {
  HintingClient& deaf = connect();
  HintingClient& other = connect();
  const Tokens prompt = prompt_of(1);
  ASSERT_TRUE(deaf.begin(prompt, {}, {.credit = kContext}));
  ASSERT_TRUE(other.begin(prompt, {}, {.credit = kContext}));
  loop_->step();
  deaf.raw().reads(false);
  run_until_idle();
  deaf.listen();
  EXPECT_LT(deaf.answer().size(), 3u);
  EXPECT_FALSE(other.listen());
  deaf.raw().reads(true);
  run_until_idle();
  EXPECT_FALSE(deaf.listen());
  EXPECT_EQ(deaf.answer(), plain(prompt));
}

TEST_F(RunTest, EconomyMakesNoPassForARootWhileHintsAreUnderWay) {
  for (const bool economy : {false, true}) {
    open({.metrics = metrics_});
    loop_->measure_costs(1s, {});
    HintingClient& client = connect();
    const Tokens prompt = prompt_of(1);
    const Tokens expected = plain(prompt);
    ASSERT_TRUE(client.begin(prompt, {}, {.credit = kContext, .economy = economy}));
    loop_->step();
    ASSERT_TRUE(client.listen());
    // A link on which three passes would fit into the time until a hint comes.
    while (!client.ended()) {
      const Instant arrival = now_ + 35ms;
      wire::Hints hints = client.chain(right(client, expected, 4));
      hints.economy = economy;
      const Tokens behind = client.text();
      while (now_ < arrival) {
        if (loop_->idle()) {
          now_ = std::min(arrival, loop_->due().value_or(arrival));
        }
        loop_->step();
      }
      if (!client.raw().send(hints, behind)) break;
      loop_->step();
      if (!client.listen()) break;
    }
    EXPECT_EQ(client.answer(), expected);
    if (economy) {
      EXPECT_LE(client.verdicts.size(), expected.size() / 4 + 4);
    } else {
      EXPECT_GT(client.verdicts.size(), expected.size() / 3);
    }
  }
}

// The server's own guesses, from the answer that it is going to give.
class Foresight final : public SessionProposer {
 public:
  Foresight(Tokens text, std::uint32_t& asked) : text_(std::move(text)), asked_(asked) {}
  DraftTree propose(const TargetSession& session, const TreeShape& shape) override {
    ++asked_;
    DraftTree tree;
    for (std::size_t at = session.tokens().size(); at < text_.size(); ++at) {
      if (tree.node_count() == shape.depth) break;
      tree.add(text_[at], tree.node_count(), -0.1f);
    }
    return tree;
  }

 private:
  Tokens text_;
  std::uint32_t& asked_;
};

TEST_F(RunTest, TheServersOwnGuessesFillTheGapsBetweenHints) {
  const Tokens prompt = prompt_of(1);
  const Tokens expected = plain(prompt);
  Tokens text = prompt;
  text.insert(text.end(), expected.begin(), expected.end());
  std::uint32_t asked = 0;
  Speculation speculation(
      {.make =
           [&](std::shared_ptr<std::uint32_t>) { return std::make_unique<Foresight>(text, asked); },
       .session_bytes = 0},
      {.tree = {.breadth = 1, .depth = 4, .nodes = 4}, .context_count = kContext});
  open({.speculation = &speculation, .metrics = metrics_});
  HintingClient& alone = connect();
  ASSERT_TRUE(alone.begin(prompt, {}, {.credit = kContext}));
  run_until_idle();
  EXPECT_FALSE(alone.listen());
  EXPECT_EQ(alone.answer(), expected);
  EXPECT_LT(alone.verdicts.size(), expected.size() / 2);
  EXPECT_GT(alone.verdicts[1].drafted, 0u);
  EXPECT_EQ(alone.verdicts[1].hinted, 0u);

  HintingClient& hinting = connect();
  ASSERT_TRUE(hinting.begin(prompt, {}, {.credit = kContext}));
  loop_->step();
  ASSERT_TRUE(hinting.listen());
  ASSERT_TRUE(hinting.send(hinting.chain(right(hinting, expected, 3))));
  const std::uint32_t asked_before = asked;
  loop_->step();
  hinting.listen();
  EXPECT_EQ(asked, asked_before) << "a device's hints need no guesses";
  EXPECT_EQ(hinting.verdicts.at(1).hinted, 3u);
  EXPECT_EQ(hinting.verdicts.at(1).drafted, 0u);
}

// Nobody pays for a device that promised hints and fell silent.
TEST_F(RunTest, ASilentDeviceHoldsNobodyUp) {
  HintingClient& silent = connect();
  HintingClient& other = connect();
  const Tokens prompt = prompt_of(1);
  const Tokens expected = plain(prompt);
  ASSERT_TRUE(silent.begin(prompt, {}, {.credit = kContext, .rows = true, .economy = true}));
  ASSERT_TRUE(other.begin(prompt, {}, {.credit = kContext}));
  const Instant begun = now_;
  while (other.listen()) loop_->step();
  EXPECT_EQ(other.answer(), expected);
  EXPECT_LT(now_ - begun, (expected.size() + 3) * (kPassTime + 16 * kRowTime));
  while (silent.listen()) {
    if (loop_->idle()) {
      ASSERT_TRUE(loop_->due()) << "it would wait for ever";
      now_ = *loop_->due();
    }
    loop_->step();
  }
  EXPECT_EQ(silent.answer(), expected) << "and goes on without them";
}

// Runs that wait for credit hold memory that others want. Who loses it is told, and gets the same
// answer from all of its text.
TEST_F(RunTest, ARunThatWaitsForCreditGivesItsMemoryUp) {
  open({.sessions = {.kv_bytes_max = SessionStore::session_bytes(parts())}, .metrics = metrics_});
  std::vector<Tokens> prompts;
  std::vector<HintingClient*> waiting;
  for (std::size_t i = 0; waiting.size() < 10; ++i) {
    const Tokens prompt = prompt_of(i);
    if (plain(prompt).size() < 40) continue;
    prompts.push_back(prompt);
    waiting.push_back(&connect());
    ASSERT_TRUE(waiting.back()->begin(prompt, {}, {.credit = 40}));
    run_until_idle();
    now_ += 1min;
  }
  std::size_t gave_way = 0;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    SCOPED_TRACE(i);
    HintingClient& client = *waiting[i];
    const bool lost = !client.raw().heard.empty() &&
                      std::holds_alternative<wire::ErrorReport>(client.raw().heard.back());
    if (lost) client.raw().heard.pop_back();
    ASSERT_TRUE(client.listen());
    if (lost) {
      ++gave_way;
      ASSERT_TRUE(client.begin_anew({.credit = kContext}));
    } else {
      ASSERT_TRUE(client.send(client.credit(kContext)));
    }
    run_until_idle();
    // For memory that nobody works with.
    for (const Instant end = now_ + 10s; now_ < end && loop_->waiting_count() > 0; now_ += 100ms) {
      loop_->step();
    }
    run_until_idle();
    EXPECT_FALSE(client.listen());
    EXPECT_EQ(client.answer(), plain(prompts[i]));
  }
  EXPECT_GT(gave_way, 0u);
  EXPECT_LT(gave_way, waiting.size());
}

// Devices that fell silent hold all the memory: a prompt waits for a while, and no longer.
TEST_F(RunTest, APromptDoesNotWaitForRunsThatWaitForCredit) {
  open({.sessions = {.kv_bytes_max = SessionStore::session_bytes(parts())}, .metrics = metrics_});
  for (std::size_t i = 0; i < 20 && loop_->waiting_count() == 0; ++i) {
    HintingClient& silent = connect();
    Tokens prompt = prompt_of(i);
    prompt.resize(40, 7);
    ASSERT_TRUE(silent.begin(prompt, {}, {.credit = 41}));
    run_until_idle();
  }
  HintingClient& asking = connect();
  const Tokens prompt = prompt_of(0);
  ASSERT_TRUE(asking.begin(prompt, {}, {.credit = kContext}));
  const Instant begun = now_;
  while (asking.verdicts.empty() && now_ < begun + 10s) {
    loop_->step();
    now_ += 100ms;
    asking.listen();
  }
  EXPECT_LT(now_, begun + 6s);
  run_until_idle();
  EXPECT_FALSE(asking.listen());
  EXPECT_EQ(asking.answer(), plain(prompt));
}

// Devices come and go for a day, some of them in the middle of an answer.
TEST_F(RunTest, ADayOfAnswersLeavesNothingBehind) {
  open({.sessions = {.kv_bytes_max = 4 * SessionStore::session_bytes(parts())},
        .metrics = metrics_});
  std::vector<Tokens> prompts;
  std::vector<Tokens> answers;
  for (std::size_t i = 0; i < 4; ++i) {
    prompts.push_back(prompt_of(i));
    answers.push_back(plain(prompts.back()));
  }
  Random random(1);
  std::vector<std::size_t> heap;  // at the end of each hour
  for (int hour = 0; hour < 24; ++hour) {
    for (int visit = 0; visit < 40; ++visit) {
      now_ += 90s;
      clients_.clear();
      HintingClient& client = connect();
      const std::size_t about = random.below(prompts.size());
      ASSERT_TRUE(client.begin(prompts[about], {}, {.credit = kContext}));
      const bool stays = random.below(4) > 0;
      for (int step = 0; client.listen() && (stays || step < 5); ++step) {
        loop_->step();
        if (random.below(2) == 0 || !client.listen()) continue;
        Tokens follows = right(client, answers[about], 4);
        if (random.below(3) == 0) follows.assign(4, 5);
        ASSERT_TRUE(client.send(client.chain(follows)));
      }
      if (stays) {
        ASSERT_EQ(client.answer(), answers[about]);
      }
    }
    clients_.clear();
    run_until_idle();
    heap.push_back(mallinfo2().uordblks);
  }
  // What is kept for the next ones, sessions to be resumed and beginnings of prompts, is there
  // after an hour. A sanitizer's allocator tells nothing.
  EXPECT_LE(heap.back(), heap[4] + heap[4] / 100);
}

// Several clients, hints that are right, wrong, late, repeated, lost or hostile, credit that comes
// in portions, runs that are cancelled and begun again: everybody gets the plain answer.
TEST_F(RunTest, AnyScheduleGivesThePlainAnswer) {
  std::map<std::pair<std::uint64_t, bool>, Tokens> plain_answers;
  const char* const wanted = std::getenv("EDGEDRAFT_TEST_SCHEDULES");
  const std::uint64_t schedules = wanted != nullptr ? std::stoull(wanted) : 1500;
  for (std::uint64_t seed = 0; seed < schedules; ++seed) {
    Random random(seed);
    open({.economy = static_cast<Economy>(random.below(3)), .metrics = metrics_});
    struct Peer {
      HintingClient* client;
      SamplingParams sampling;
      Tokens expected;
      std::uint32_t credit = 0;
      std::vector<std::pair<wire::Hints, Tokens>> under_way{};
    };
    std::vector<Peer> peers;
    for (std::uint64_t count = 1 + random.below(3); count > 0; --count) {
      const std::uint64_t text = random.below(4);
      const bool sampled = random.below(2) == 0;
      const SamplingParams sampling =
          sampled ? SamplingParams{.temperature = 0.8f, .seed = 5} : SamplingParams{};
      Tokens& expected = plain_answers[{text, sampled}];
      if (expected.empty()) expected = plain(prompt_of(text), sampling);
      Peer peer{.client = &connect(), .sampling = sampling, .expected = expected};
      peer.credit = 7 + static_cast<std::uint32_t>(random.below(60));
      ASSERT_TRUE(peer.client->begin(prompt_of(text), sampling,
                                     {.credit = peer.credit, .economy = random.below(2) == 0}));
      peers.push_back(std::move(peer));
    }
    const auto all_ended = [&] {
      return std::ranges::all_of(peers, [](const Peer& p) { return p.client->ended(); });
    };
    int idle_steps = 0;
    while (!all_ended() && idle_steps < 5000) {
      if (loop_->idle()) {
        ++idle_steps;
        now_ += std::min<Duration>(50ms, loop_->due().value_or(now_ + 50ms) - now_);
      }
      loop_->step();
      for (Peer& peer : peers) {
        HintingClient& client = *peer.client;
        if (random.below(3) > 0 || !client.listen()) continue;
        Tokens follows = right(client, peer.expected, 1 + random.below(8));
        if (random.below(3) == 0 && !follows.empty()) {
          follows[random.below(follows.size())] =
              static_cast<std::uint32_t>(random.below(kToyVocabulary + 5));
        }
        wire::Hints hints = client.chain(follows, static_cast<std::uint8_t>(random.below(20)));
        if (random.below(5) == 0) {
          for (std::uint16_t& parent : hints.parents) {
            parent = static_cast<std::uint16_t>(random.below(hints.first));
          }
        }
        if (random.below(6) > 0) peer.under_way.emplace_back(hints, client.text());
        if (!peer.under_way.empty() && random.below(2) == 0) {
          const auto chosen = peer.under_way.begin() +
                              static_cast<std::ptrdiff_t>(random.below(peer.under_way.size()));
          if (chosen->first.round == client.raw().round()) {
            ASSERT_TRUE(client.send(chosen->first, chosen->second));
          }
          if (random.below(3) > 0) peer.under_way.erase(chosen);
        }
        if (client.text().size() + 3 > peer.credit || random.below(10) == 0) {
          peer.credit += static_cast<std::uint32_t>(random.below(20));
          ASSERT_TRUE(client.send(client.credit(peer.credit)));
        }
        if (random.below(25) == 0) {
          if (random.below(2) == 0) {
            ASSERT_TRUE(client.raw().send(wire::Cancel{}));
          }
          if (!client.listen()) continue;
          peer.credit = static_cast<std::uint32_t>(client.text().size() + random.below(30));
          ASSERT_TRUE(client.go_on(peer.sampling, {.credit = peer.credit + 1}));
        }
      }
    }
    for (Peer& peer : peers) {
      ASSERT_EQ(peer.client->answer(), peer.expected)
          << "seed " << seed << ", " << peer.client->answer().size() << " of "
          << peer.expected.size() << " tokens, credit " << peer.credit << ", idle " << idle_steps;
      peer.client->raw().leave();
    }
  }
}

}  // namespace
}  // namespace edgedraft
