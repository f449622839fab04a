// Runs without hints: the server continues alone, with or without its own drafter.
#include <gtest/gtest.h>

#include "server/proposers/drafter_proposer.h"
#include "shared/drafting/independent/independent_kind.h"
#include "shared/drafting/moa/moa_kind.h"
#include "tests/server/run_rig.h"
#include "tests/support/expect.h"

namespace edgedraft::server {
namespace {

using testing::ToyMoa;

constexpr std::uint64_t kDrafterBytes = 100;

enum class Beside { nothing, moa_tli0, moa_tli1, independent, twin };

std::string name_of(Beside drafter) {
  constexpr const char* kNames[] = {"nothing", "moa_tli0", "moa_tli1", "independent", "twin"};
  return kNames[static_cast<std::size_t>(drafter)];
}

class StreamTest : public RunTest {
 protected:
  void TearDown() override { close(); }

  // The loop refers to the drafter, so the loop is destroyed first.
  void close() {
    clients_.clear();
    loop_.reset();
  }
  void open_beside(Beside drafter, std::uint32_t drafters_max = 0) {
    close();
    speculation_.reset();
    if (drafter != Beside::nothing) speculate(source_of(drafter));
    if (drafters_max > 0) {
      EXPECT_TRUE(speculation_->take_part_of(drafters_max * (kDrafterBytes + 1), 1));
    }
    open_speculating();
  }
  void speculate(ProposerSource source) {
    speculation_.emplace(
        std::move(source),
        SpeculationOptions{
            .tree = {.breadth = 3, .depth = 4, .nodes = 12},
            .context_count = kContext,
            .on_failure = [this](const std::string& why) { failures_.push_back(why); },
            .now = [this] { return now_; }});
  }
  void open_speculating() {
    open({.speculation = speculation_ ? &*speculation_ : nullptr, .metrics = metrics_});
  }

  ProposerSource source_of(Beside drafter) {
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

  // `count` tokens after the prompt, drafted by the loop's own drafter.
  HintingClient& streamed(const Tokens& prompt, std::uint32_t count) {
    HintingClient& client = start_run(prompt, {.credit = kPromptCount + count});
    run_until_idle();
    EXPECT_TRUE(client.listen());
    EXPECT_EQ(client.answer(), first_of(plain(prompt), count));
    return client;
  }
  static Tokens first_of(const Tokens& tokens, std::size_t count) {
    return Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
  }

  ToyDecoder other_{11, 1};
  std::optional<ToyMoa> moa_;
  std::unique_ptr<Tap> tap_;
  std::optional<Speculation> speculation_;
  std::vector<std::string> failures_;
};

class LosslessStreamTest : public StreamTest, public ::testing::WithParamInterface<Beside> {};

// Several at once, greedy and sampled.
TEST_P(LosslessStreamTest, StreamsMatchPlainAnswers) {
  open_beside(GetParam());
  std::uint32_t drafted = 0;
  std::size_t streamed = 0;
  std::size_t verdicts = 0;
  const auto sampling = [](std::uint64_t i) {
    return SamplingParams{.temperature = i % 2 == 0 ? 0.0f : 1.0f, .seed = i};
  };
  for (std::uint64_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(connect().begin(prompt_of(i), sampling(i), {.credit = kContext}));
  }
  run_until_idle();
  for (std::uint64_t i = 0; i < clients_.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_FALSE(clients_[i]->listen());
    EXPECT_EQ(clients_[i]->answer(), plain(prompt_of(i), sampling(i)));
    for (const wire::Verdict& v : clients_[i]->verdicts) {
      drafted += v.drafted;
      EXPECT_LE(v.tokens.size(), v.drafted);
    }
    verdicts += clients_[i]->verdicts.size();
    streamed += clients_[i]->answer().size();
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
                                           Beside::independent, Beside::twin),
                         [](const auto& beside) { return name_of(beside.param); });

// A drafter on the server knows the noise of the draw, like one on a device.
TEST_F(StreamTest, DraftsFollowSamplingNoise) {
  open_beside(Beside::twin);
  std::size_t tokens = 0;
  std::size_t verdicts = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    HintingClient& client = connect();
    ASSERT_TRUE(client.begin(prompt_of(0), {.temperature = 2.0f, .seed = seed},
                             {.credit = kPromptCount + 61}));
    run_until_idle();
    client.listen();
    tokens += client.answer().size();
    verdicts += client.verdicts.size();
  }
  // Greedy drafts rarely match the draws at this temperature, so they bring fewer.
  EXPECT_GT(static_cast<double>(tokens), 2.0 * static_cast<double>(verdicts));
}

// The client continues from any token of the stream that it has.
TEST_F(StreamTest, CancelledStreamLeavesUsableSession) {
  const Tokens prompt = prompt_of(0);
  const Tokens expected = plain(prompt);
  for (const Beside drafter : {Beside::nothing, Beside::moa_tli0, Beside::moa_tli1, Beside::twin}) {
    for (std::uint32_t steps = 0; steps < 6; ++steps) {
      for (const std::uint32_t heard : {0u, steps / 2, steps}) {
        open_beside(drafter);  // no drafts measured yet
        HintingClient& client = start_run(prompt);
        for (std::uint32_t i = 0; i <= heard; ++i) loop_->step();
        ASSERT_TRUE(client.listen());
        for (std::uint32_t i = heard; i < steps; ++i) loop_->step();
        ASSERT_TRUE(client.raw().send(wire::Cancel{}));
        EXPECT_TRUE(loop_->idle());
        const std::size_t known = client.answer().size();
        const auto credit = static_cast<std::uint32_t>(client.text().size()) + 10;
        ASSERT_TRUE(client.go_on({}, {.credit = credit}));
        run_until_idle();
        client.listen();
        EXPECT_GT(client.answer().size(), known);
        ASSERT_LE(client.answer().size(), expected.size());
        EXPECT_EQ(client.answer(), first_of(expected, client.answer().size()));
      }
    }
  }
}

TEST_F(StreamTest, DraftersKeepMemoryLimitAndReleaseMemory) {
  open_beside(Beside::twin, 2);
  const Tokens prompt = prompt_of(0);
  for (int i = 0; i < 3; ++i) start_run(prompt, {.credit = kPromptCount + 21});
  loop_->step();
  loop_->step();
  EXPECT_EQ(speculation_->bytes(), 2 * kDrafterBytes);
  run_until_idle();
  for (const auto& client : clients_) {
    client->listen();
    EXPECT_EQ(client->answer(), first_of(plain(prompt), 21));
  }
  EXPECT_GT(clients_[0]->verdicts[1].drafted, 0u);
  for (const wire::Verdict& v : clients_[2]->verdicts) EXPECT_EQ(v.drafted, 0u);
  // All but the last, for which no tree could help.
  EXPECT_EQ(metrics_->steps_without_drafter.value(), clients_[2]->verdicts.size() - 2)
      << "every step without a drafter counts";
  clients_[0]->raw().leave();
  EXPECT_EQ(speculation_->bytes(), kDrafterBytes);
}

// An idle session does not keep a drafter from active ones.
TEST_F(StreamTest, IdleSessionGivesUpDrafter) {
  open_beside(Beside::twin, 1);
  const auto ask = [&](std::size_t prompt) {
    HintingClient& client = streamed(prompt_of(prompt), 21);
    EXPECT_TRUE(client.raw().send(wire::Cancel{}));
    EXPECT_EQ(speculation_->bytes(), kDrafterBytes);
    return client.verdicts.at(1).drafted;
  };
  EXPECT_GT(ask(0), 0u);
  EXPECT_EQ(ask(1), 0u) << "the first session is not idle yet";
  EXPECT_GT(metrics_->steps_without_drafter.value(), 0u);
  now_ += 2s;
  EXPECT_GT(ask(2), 0u);
}

TEST_F(StreamTest, ReservesDrafterMemoryOrReportsTooLittle) {
  open_beside(Beside::twin);
  constexpr std::uint64_t kSessionBytes = 200;
  const auto refused = speculation_->take_part_of(kSessionBytes + kDrafterBytes - 1, kSessionBytes);
  ASSERT_TRUE(fails_with(refused, Errc::usage, "--kv-memory"));
  EXPECT_TRUE(contains(refused.error().message, "--speculate"));
  const auto one = speculation_->take_part_of(kSessionBytes + kDrafterBytes, kSessionBytes);
  ASSERT_TRUE(one);
  EXPECT_EQ(*one, kSessionBytes);
  const auto two = speculation_->take_part_of(650, kSessionBytes);
  ASSERT_TRUE(two);
  EXPECT_EQ(*two, 650 - 2 * kDrafterBytes);
  EXPECT_FALSE(speculation_->full());
}

TEST_F(StreamTest, StreamIsPlainIfDrafterCannotBeCreated) {
  close();
  ProposerSource source = source_of(Beside::twin);
  source.make = [](std::shared_ptr<std::uint32_t>) -> std::unique_ptr<SessionProposer> {
    throw DeviceError("no memory");
  };
  speculate(std::move(source));
  open_speculating();
  streamed(prompt_of(0), 21);
  ASSERT_EQ(failures_.size(), 1u) << "reported once, not per step";
  EXPECT_TRUE(contains(failures_[0], "no memory"));
}

}  // namespace
}  // namespace edgedraft::server
