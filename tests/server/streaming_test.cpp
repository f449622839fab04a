// Runs without hints: the server goes on alone, with or without a drafter beside the target.
#include <gtest/gtest.h>

#include "server/passes/pass_loop.h"
#include "server/proposers/probing_methods.h"
#include "server/proposers/speculation.h"
#include "shared/drafting/independent/independent_kind.h"
#include "shared/drafting/moa/moa_kind.h"
#include "tests/protocol/support.h"
#include "tests/server/plain_answer.h"
#include "tests/server/toy_session.h"
#include "tests/support/heard_replies.h"
#include "tests/support/toy_models.h"

namespace edgedraft {
namespace {

using testing::client_of;
using testing::kToyEndToken;
using testing::random_tokens;
using testing::ToyDecoder;
using testing::ToyMoa;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint64_t kDrafterBytes = 100;

// Puts the tokens of a run together, and may cease to read.
class Reader final : public testing::HeardReplies {
 public:
  void verdict(wire::Verdict verdict) override {
    EXPECT_FALSE(full_) << "a client that does not read";
    HeardReplies::verdict(std::move(verdict));
  }
  bool full() const override { return full_; }

  void reads(bool does) { full_ = !does; }
  bool goes_on() const { return verdicts.back().ending == wire::Ending::none; }
  Tokens tokens() const {
    Tokens all;
    for (const wire::Verdict& v : verdicts) {
      all.insert(all.end(), v.tokens.begin(), v.tokens.end());
      all.push_back(v.next);
    }
    return all;
  }

 private:
  bool full_ = false;
};

enum class Beside { nothing, moa_tli0, moa_tli1, independent, twin, lookahead, core };

std::string name_of(Beside drafter) {
  constexpr const char* kNames[] = {"nothing", "moa_tli0",  "moa_tli1", "independent",
                                    "twin",    "lookahead", "core"};
  return kNames[static_cast<std::size_t>(drafter)];
}

class StreamTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kContext = 160;

  struct Options {
    Beside drafter = Beside::nothing;
    std::uint32_t drafters_max = 0;  // 0: as many as there are sessions
    bool fails = false;              // to make drafters
  };

  void open(const Options& options) {
    if (options.drafter != Beside::nothing) {
      ProposerSource source = source_of(options.drafter);
      if (options.fails) {
        source.make = [](std::shared_ptr<std::uint32_t>) -> std::unique_ptr<SessionProposer> {
          throw DeviceError("no memory");
        };
      }
      speculation_.emplace(
          std::move(source),
          SpeculationOptions{
              .tree = {.breadth = 3, .depth = 4, .nodes = 12},
              .context_count = kContext,
              .on_failure = [this](const std::string& why) { failures_.push_back(why); },
              .now = [this] { return now_; }});
      if (options.drafters_max > 0) {
        EXPECT_TRUE(speculation_->take_part_of(options.drafters_max * (kDrafterBytes + 1), 1));
      }
    }
    loop_.emplace(SessionParts{.decoder = decoder_,
                               .context_count = kContext,
                               .is_end = [](std::uint32_t token) { return token == kToyEndToken; }},
                  PassLoopOptions{.sessions = {.sessions_max = 64, .kv_bytes_max = 0},
                                  .speculation = speculation_ ? &*speculation_ : nullptr,
                                  .metrics = metrics_},
                  [this] { return now_ += std::chrono::microseconds(10); });
  }

  ProposerSource source_of(Beside drafter) {
    if (drafter == Beside::lookahead || drafter == Beside::core) {
      return probing_source(*find_probing_method(name_of(drafter)),
                            [](std::uint32_t token) { return token == kToyEndToken; });
    }
    const auto decoder_model = [](const ToyDecoder& toy) {
      return make_independent_model({.config = toy.config, .tensors = toy.tensors});
    };
    std::unique_ptr<DrafterModel> model;
    if (drafter == Beside::twin) {
      model = decoder_model(toy_);
    } else if (drafter == Beside::independent) {
      model = decoder_model(other_);
    } else {
      moa_.emplace(toy_, 3, drafter == Beside::moa_tli0 ? 0 : 1);
      model = make_moa_model({.config = moa_->config, .tensors = moa_->tensors});
    }
    tap_ = model->make_tap(*backend_);
    ProposerSource source = drafter_source(*backend_, *model, tap_.get(), kContext);
    source.session_bytes = kDrafterBytes;
    return source;
  }

  // Takes in the verdict on the prompt, whose run has no credit for more.
  void prompt(const Client& to, const Tokens& text, std::uint32_t base_length,
              const SamplingParams& sampling) {
    Reader& reader = reader_of(to);
    std::uint32_t& round = rounds_[to.connection_id];
    loop_->cancel(to.connection_id, round);
    const auto answered = base_length + static_cast<std::uint32_t>(text.size()) + 1;
    const wire::Prefill request{.round = ++round,
                                .base_length = base_length,
                                .tokens = text,
                                .sampling = sampling,
                                .run = {.credit = answered}};
    reader.length.asked(request);
    loop_->begin(to, request, now_);
    while (!loop_->idle()) loop_->step();
  }

  // Credit for so many tokens more.
  void stream(const Client& to, std::uint32_t tokens) {
    const Reader& reader = reader_of(to);
    loop_->hints(to.connection_id,
                 {.round = rounds_[to.connection_id], .credit = reader.length.value() + tokens},
                 now_);
  }

  static Reader& reader_of(const Client& client) { return static_cast<Reader&>(*client.reply); }

  Tokens plain_answer(const Tokens& text, const SamplingParams& sampling, std::size_t count) {
    const auto is_end = [](std::uint32_t token) { return token == kToyEndToken; };
    return testing::plain_answer({decoder_, kContext, is_end}, text, count, sampling);
  }

  Instant now_{};
  std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
  ToyDecoder toy_{6};
  ToyDecoder other_{11, 1};
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, kContext};
  std::optional<ToyMoa> moa_;
  std::unique_ptr<Tap> tap_;
  std::optional<Speculation> speculation_;
  std::optional<PassLoop> loop_;
  std::map<std::uint64_t, std::uint32_t> rounds_;  // of the newest prompts, by connection
  std::vector<std::string> failures_;
};

class LosslessStreamTest : public StreamTest, public ::testing::WithParamInterface<Beside> {};

// Several at once, one turn behind the other on the same session, some of them edited.
TEST_P(LosslessStreamTest, StreamsAreThePlainAnswers) {
  open({.drafter = GetParam()});
  Random random(4);
  std::uint32_t drafted = 0;
  std::uint32_t streamed = 0;
  std::uint32_t verdicts = 0;
  for (int turn = 0; turn < 3; ++turn) {
    constexpr std::uint64_t kClients = 5;
    std::vector<std::shared_ptr<Reader>> readers;
    std::vector<Tokens> answers;
    for (std::uint64_t id = 1; id <= kClients; ++id) {
      SCOPED_TRACE(id);
      const SamplingParams sampling{.temperature = id % 2 == 0 ? 1.0f : 0.0f, .seed = id};
      // Some tokens of the turn before stay, at the front.
      const Tokens text = [&] {
        Random own(id);
        Tokens all = random_tokens(own, 3 + own.below(90));
        const Tokens tail = random_tokens(random, static_cast<std::uint64_t>(turn) * 2);
        all.insert(all.end(), tail.begin(), tail.end());
        return all;
      }();
      const auto base = turn == 0 ? 0u : static_cast<std::uint32_t>(2 + random.below(2));
      readers.push_back(std::make_shared<Reader>());
      const Client to = client_of(id, readers.back());
      prompt(to, Tokens(text.begin() + base, text.end()), base, sampling);
      answers.push_back(plain_answer(text, sampling, 40));
    }
    for (std::uint64_t id = 1; id <= kClients; ++id) {
      const auto& reader = readers[id - 1];
      if (reader->goes_on()) stream(client_of(id, reader), 39);
    }
    while (!loop_->idle()) loop_->step();
    for (std::size_t i = 0; i < readers.size(); ++i) {
      EXPECT_EQ(readers[i]->tokens(), answers[i]);
      EXPECT_TRUE(readers[i]->refusals.empty());
      for (const wire::Verdict& v : readers[i]->verdicts) {
        drafted += v.drafted;
        EXPECT_LE(v.tokens.size(), v.drafted);
      }
      verdicts += static_cast<std::uint32_t>(readers[i]->verdicts.size());
      streamed += static_cast<std::uint32_t>(answers[i].size());
    }
  }
  EXPECT_EQ(drafted > 0, GetParam() != Beside::nothing);
  if (GetParam() == Beside::nothing) {
    EXPECT_EQ(verdicts, streamed);
  }
  if (GetParam() == Beside::twin) {
    EXPECT_LT(verdicts, streamed);
  }
}

INSTANTIATE_TEST_SUITE_P(Drafters, LosslessStreamTest,
                         ::testing::Values(Beside::nothing, Beside::moa_tli0, Beside::moa_tli1,
                                           Beside::independent, Beside::twin, Beside::lookahead,
                                           Beside::core),
                         [](const auto& beside) { return name_of(beside.param); });

// A drafter beside the target knows the noise of the draw, as one on a device does.
TEST_F(StreamTest, DraftsFollowTheNoiseOfTheDraw) {
  open({.drafter = Beside::twin});
  std::size_t tokens = 0;
  std::size_t verdicts = 0;
  for (std::uint64_t id = 1; id <= 5; ++id) {
    const auto reader = std::make_shared<Reader>();
    const Client to = client_of(id, reader);
    prompt(to, {5, 6, 7}, 0, {.temperature = 2.0f, .seed = id});
    if (!reader->goes_on()) continue;
    stream(to, 60);
    while (!loop_->idle()) loop_->step();
    tokens += reader->tokens().size();
    verdicts += reader->verdicts.size();
  }
  // Its likeliest tokens alone, which rarely are the ones drawn at this temperature, bring fewer.
  EXPECT_GT(static_cast<double>(tokens), 2.0 * static_cast<double>(verdicts));
}

TEST_F(StreamTest, GoesAsFarAsItsCredit) {
  for (const Beside drafter : {Beside::nothing, Beside::twin}) {
    open({.drafter = drafter});
    for (const std::uint32_t count : {1u, 2u, 5u, 9u}) {
      const auto reader = std::make_shared<Reader>();
      const Client to = client_of(count, reader);
      prompt(to, {5, 6, 7}, 0, {});
      stream(to, count);
      while (!loop_->idle()) loop_->step();
      EXPECT_EQ(reader->tokens(), plain_answer({5, 6, 7}, {}, count + 1));
    }
  }
}

TEST_F(StreamTest, OneThatIsNotReadPausesAndTheOthersGoOn) {
  open({.drafter = Beside::twin});
  const auto slow = std::make_shared<Reader>();
  const auto quick = std::make_shared<Reader>();
  const Client first = client_of(1, slow);
  const Client second = client_of(2, quick);
  prompt(first, {5, 6, 7}, 0, {});
  prompt(second, {5, 6, 8}, 0, {});
  slow->reads(false);
  stream(first, 30);
  stream(second, 30);
  while (!loop_->idle()) loop_->step();
  EXPECT_EQ(slow->verdicts.size(), 1u);
  EXPECT_EQ(quick->tokens(), plain_answer({5, 6, 8}, {}, 31));
  slow->reads(true);
  EXPECT_FALSE(loop_->idle());
  while (!loop_->idle()) loop_->step();
  EXPECT_EQ(slow->tokens(), plain_answer({5, 6, 7}, {}, 31));
}

// The client goes on from any token of the stream that it has.
TEST_F(StreamTest, ACancelledStreamLeavesASessionToBuildOn) {
  for (const Beside drafter : {Beside::nothing, Beside::moa_tli0, Beside::moa_tli1, Beside::twin}) {
    const Tokens expected = plain_answer({5, 6, 7}, {}, 60);
    for (std::uint32_t steps = 0; steps < 6; ++steps) {
      for (const std::uint32_t heard : {0u, steps / 2, steps}) {
        open({.drafter = drafter});  // which has not learned yet what drafts are worth
        const auto reader = std::make_shared<Reader>();
        const Client to = client_of(1 + steps, reader);
        prompt(to, {5, 6, 7}, 0, {});
        stream(to, 40);
        for (std::uint32_t i = 0; i < steps; ++i) loop_->step();
        loop_->cancel(to.connection_id, rounds_[to.connection_id]);
        EXPECT_TRUE(loop_->idle());
        // What was sent and not heard comes again.
        prompt(to, {}, 3 + 1 + heard, {});
        ASSERT_TRUE(reader->refusals.empty()) << reader->refusals[0].message;
        EXPECT_EQ(reader->verdicts.back().next, expected[1 + heard]);
        // The server, which drafts itself, may have been further.
        const auto before = static_cast<std::ptrdiff_t>(reader->tokens().size());
        stream(to, 10);
        while (!loop_->idle()) loop_->step();
        ASSERT_TRUE(reader->refusals.empty()) << reader->refusals[0].message;
        const Tokens all = reader->tokens();
        const Tokens more(all.begin() + before, all.end());
        ASSERT_LE(2 + heard + more.size(), expected.size());
        EXPECT_TRUE(std::equal(more.begin(), more.end(), expected.begin() + 2 + heard));
        EXPECT_FALSE(more.empty());
        loop_->end(to.connection_id);
      }
    }
  }
}

TEST_F(StreamTest, DraftersKeepToTheirMemoryAndLeaveItBehind) {
  open({.drafter = Beside::twin, .drafters_max = 2});
  std::vector<std::shared_ptr<Reader>> readers;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    readers.push_back(std::make_shared<Reader>());
    prompt(client_of(id, readers.back()), {5, 6, 7}, 0, {});
  }
  for (std::uint64_t id = 1; id <= 3; ++id) stream(client_of(id, readers[id - 1]), 20);
  loop_->step();
  EXPECT_EQ(speculation_->bytes(), 2 * kDrafterBytes);
  while (!loop_->idle()) loop_->step();
  for (const auto& reader : readers) {
    EXPECT_EQ(reader->tokens(), plain_answer({5, 6, 7}, {}, 21));
  }
  EXPECT_GT(readers[0]->verdicts[1].drafted, 0u);
  for (const wire::Verdict& v : readers[2]->verdicts) EXPECT_EQ(v.drafted, 0u);
  // All but the last, which no tree could bring anything to.
  EXPECT_EQ(metrics_->steps_without_drafter.value(), readers[2]->verdicts.size() - 2)
      << "an operator wants to know";
  loop_->end(1);
  EXPECT_EQ(speculation_->bytes(), kDrafterBytes);
}

// A client that asked first and stays connected does not keep a drafter from those that ask now.
TEST_F(StreamTest, AnIdleSessionGivesItsDrafterUp) {
  open({.drafter = Beside::twin, .drafters_max = 1});
  const auto ask = [&](std::uint64_t id, std::uint32_t last) {
    const auto reader = std::make_shared<Reader>();
    const Client to = client_of(id, reader);
    prompt(to, {5, 6, last}, 0, {});
    stream(to, 20);
    while (!loop_->idle()) loop_->step();
    loop_->cancel(id, rounds_[id]);
    EXPECT_EQ(reader->tokens(), plain_answer({5, 6, last}, {}, 21));
    EXPECT_EQ(speculation_->bytes(), kDrafterBytes);
    return reader->verdicts.at(1).drafted;
  };
  EXPECT_GT(ask(1, 7), 0u);
  EXPECT_EQ(ask(2, 8), 0u) << "the first has only just had its answer";
  EXPECT_GT(metrics_->steps_without_drafter.value(), 0u);
  now_ += std::chrono::seconds(2);
  EXPECT_GT(ask(3, 9), 0u);
}

TEST_F(StreamTest, DraftersTakeAPartOfTheMemoryOrSayThatItIsTooLittle) {
  open({.drafter = Beside::twin});
  constexpr std::uint64_t kSessionBytes = 200;
  const auto refused = speculation_->take_part_of(kSessionBytes + kDrafterBytes - 1, kSessionBytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::usage);
  EXPECT_NE(refused.error().message.find("--kv-memory"), std::string::npos);
  EXPECT_NE(refused.error().message.find("--speculate"), std::string::npos);
  const auto one = speculation_->take_part_of(kSessionBytes + kDrafterBytes, kSessionBytes);
  ASSERT_TRUE(one);
  EXPECT_EQ(*one, kSessionBytes);
  const auto two = speculation_->take_part_of(650, kSessionBytes);
  ASSERT_TRUE(two);
  EXPECT_EQ(*two, 650 - 2 * kDrafterBytes);
  EXPECT_FALSE(speculation_->full());
}

TEST_F(StreamTest, WhereNoDrafterCanBeMadeTheStreamIsPlain) {
  open({.drafter = Beside::twin, .fails = true});
  const auto reader = std::make_shared<Reader>();
  const Client to = client_of(1, reader);
  prompt(to, {5, 6, 7}, 0, {});
  stream(to, 20);
  while (!loop_->idle()) loop_->step();
  EXPECT_EQ(reader->tokens(), plain_answer({5, 6, 7}, {}, 21));
  ASSERT_EQ(failures_.size(), 1u) << "asked for at every step";
  EXPECT_NE(failures_[0].find("no memory"), std::string::npos);
}

// A long prompt beside runs has its turns.
TEST_F(StreamTest, StreamsHoldUpNobody) {
  open({});
  std::vector<std::shared_ptr<Reader>> readers;
  for (std::uint64_t id = 1; id <= 8; ++id) {
    readers.push_back(std::make_shared<Reader>());
    const Client to = client_of(id, readers.back());
    prompt(to, {5, 6, 7, static_cast<std::uint32_t>(10 + id)}, 0, {});
  }
  for (std::uint64_t id = 1; id <= 8; ++id) stream(client_of(id, readers[id - 1]), 100);
  Random random(2);
  const auto asking = std::make_shared<Reader>();
  const Tokens text = random_tokens(random, 150);
  loop_->begin(client_of(20, asking), wire::Prefill{.round = 1, .tokens = text}, now_);
  for (int i = 0; i < 3; ++i) loop_->step();
  EXPECT_EQ(asking->verdicts.size(), 1u) << "64 rows a pass";
  for (const auto& reader : readers) {
    EXPECT_TRUE(reader->verdicts.size() == 4 || !reader->goes_on());
  }
}

}  // namespace
}  // namespace edgedraft
