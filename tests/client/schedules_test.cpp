// Answers equal the target's under random schedules. Seeds decide when servers hold passes, which
// drafter drafts, the faults, the order of requests and the private parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/random.h"
#include "tests/client/generation_rig.h"
#include "tests/client/simulated_device.h"
#include "tests/server/plain_answer.h"

namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
using testing::kToyDrafterCount;
using testing::Listener;
using testing::SimulatedDevice;
using testing::Tokens;
using testing::ToyDrafter;

std::uint64_t schedule_count() {
  const char* const wanted = std::getenv("EDGEDRAFT_TEST_SCHEDULES");
  return wanted != nullptr ? std::stoull(wanted) : 150;
}

class SchedulesTest : public ::testing::Test {
 protected:
  struct Asked {
    Tokens prompt;
    SamplingParams sampling;
    std::uint32_t tokens_max;
    bool is_private;
    bool is_cancelled;
    Listener listener;
    std::uint32_t over_count = 0;
  };

  std::uint32_t below(std::uint64_t count) {
    return static_cast<std::uint32_t>(random_.below(count));
  }

  SimulatedDevice::Options options() {
    constexpr std::optional<Hold> kHolds[] = {Hold::none, Hold::economy, std::nullopt,
                                              Hold::lockstep};
    SimulatedDevice::Options options;
    options.hold = kHolds[below(4)];
    options.one_way = std::chrono::milliseconds(1 + below(60));
    options.pad_tick_ms = below(4) == 0 ? 20 : 0;
    options.conversations = 1 + below(3);
    options.drafter = below(3) == 0 ? ToyDrafter::twin : ToyDrafter(below(kToyDrafterCount));
    if (options.drafter == ToyDrafter::none && options.hold != Hold::lockstep) {
      options.hold = Hold::none;
    }
    options.tree = {.breadth = 1 + below(32), .depth = 1 + below(6), .nodes = 1 + below(62)};
    if (below(4) == 0) options.nodes_max = below(4);
    options.drafter_context = below(3) == 0 ? 4 + below(116) : SimulatedDevice::kContext;
    options.resync_wait = 10s;
    options.first_answers_alone = options.drafter != ToyDrafter::none && below(4) == 0;
    options.first_draft_step = std::chrono::microseconds(100 << below(8));
    options.others_draft_step = std::chrono::microseconds(100 << below(8));
    Duration at = std::chrono::milliseconds(20 + below(300));
    for (std::uint32_t outages = below(4); outages > 0; --outages) {
      const Duration end = at + std::chrono::milliseconds(10 + below(700));
      options.outages.push_back({.begin = at, .end = end});
      at = end + std::chrono::milliseconds(10 + below(400));
    }
    return options;
  }

  SamplingParams sampling() {
    if (below(2) == 0) return {};
    return {.temperature = 0.5f + 0.1f * static_cast<float>(below(10)),
            .top_p = below(2) == 0 ? 1.0f : 0.8f,
            .seed = random_()};
  }

  void expect_plain(const Asked& asked) {
    EXPECT_EQ(asked.over_count, 1u);
    if (asked.is_private) return;
    Tokens plain = testing::plain_answer({decoder_, SimulatedDevice::kContext, testing::is_toy_end},
                                         asked.prompt, asked.tokens_max, asked.sampling);
    const Tokens& tokens = asked.listener.tokens;
    if (asked.is_cancelled) {
      // A token that no server has checked yet may be the drafter's.
      const auto unchecked = std::ranges::find(asked.listener.provenance, Provenance::offline);
      const auto count = unchecked - asked.listener.provenance.begin();
      ASSERT_LE(count, std::ssize(plain));
      EXPECT_TRUE(std::equal(tokens.begin(), tokens.begin() + count, plain.begin()));
      return;
    }
    EXPECT_EQ(tokens, plain);
    EXPECT_EQ(std::ranges::count(asked.listener.provenance, Provenance::offline), 0);
  }

  // Returns the kills of a server while answers were due.
  std::uint64_t run(std::uint64_t seed, std::uint32_t kills = 0) {
    random_ = Random(mix64(seed));
    SimulatedDevice::Options options = this->options();
    for (Duration at{}; kills > 0; --kills) {
      at += std::chrono::milliseconds(1 + below(400));
      options.kills.push_back(at);
    }
    SimulatedDevice device(options);
    std::list<Asked> all;
    for (std::uint32_t i = 0; i < options.conversations; ++i) {
      Instant at = device.now();
      const bool answers_alone =
          options.drafter_context > 60 &&
          (options.drafter == ToyDrafter::twin || (i == 0 && options.first_answers_alone));
      const bool is_private = answers_alone && below(5) == 0;
      const bool is_cancelled = below(6) == 0;
      Tokens prompt;
      for (std::uint32_t turns = 1 + below(3); turns > 0; --turns) {
        for (std::uint32_t more = 1 + below(10); more > 0; --more) {
          prompt.push_back(3 + below(testing::kToyVocabulary - 3));
        }
        at += std::chrono::milliseconds(below(900));
        Asked& asked = all.emplace_back(Asked{.prompt = prompt,
                                              .sampling = sampling(),
                                              .tokens_max = 1 + below(60),
                                              .is_private = is_private,
                                              .is_cancelled = is_cancelled,
                                              .listener = {}});
        GenerationTerms terms{.tokens_max = asked.tokens_max, .sampling = asked.sampling};
        if (is_private) {
          terms.route = WritingSide::device;
          terms.is_private = true;
          terms.tokens_max = 1 + below(8);
        }
        device.ask(at, {.conversation = i,
                        .prompt = prompt,
                        .terms = terms,
                        .observer = &asked.listener,
                        .on_over = [&asked] { ++asked.over_count; }});
        if (is_cancelled) {
          device.time().at(at + std::chrono::milliseconds(below(400)),
                           [&device, i] { device.cancel(i); });
        }
        prompt.push_back(3 + below(testing::kToyVocabulary - 3));
      }
    }
    device.run(120s);
    for (const Asked& asked : all) expect_plain(asked);
    return device.kill_count();
  }

  Random random_{0};
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  testing::ToyDecoder toy_{6};
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, SimulatedDevice::kContext};
};

TEST_F(SchedulesTest, AnswersEqualPlainDecoding) {
  for (std::uint64_t seed = 1; seed <= schedule_count(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run(seed);
    ASSERT_FALSE(HasFailure());
  }
}

// The replica that takes over knows no session.
TEST_F(SchedulesTest, AnswersEqualPlainDecodingWhenReplicasDie) {
  std::uint64_t kills = 0;
  for (std::uint64_t seed = 1; seed <= schedule_count() / 2; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    kills += run(seed, /*kills=*/8);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GE(kills, schedule_count()) << "answers that are over test nothing";
  // The link breaks just after a check, when the drafter's context is full.
  run(1810, /*kills=*/8);
}

// A server under SIGSTOP neither reads nor writes; a partition may lose one direction only. No side
// learns of it but by silence.
TEST_F(SchedulesTest, SigstopOrPartitionInOneDirectionForThirtySecondsChangesNoAnswer) {
  for (const auto& [up, down] : {std::pair(true, true), {true, false}, {false, true}}) {
    for (const Duration begin : {50ms, 80ms, 120ms}) {
      SCOPED_TRACE(std::to_string(up) + std::to_string(down) + " at " +
                   std::to_string(begin / 1ms));
      SimulatedDevice::Options options;
      options.drafter = ToyDrafter::twin;
      options.resync_wait = 60s;
      options.stalls = {{.begin = begin, .end = begin + 30s, .up = up, .down = down}};
      SimulatedDevice device(options);
      const Instant end = device.now() + begin + 30s;
      Instant over{};
      Asked asked{.prompt = {5, 6, 7},
                  .sampling = {.temperature = 0.9f, .seed = 4},
                  .tokens_max = 60,
                  .is_private = false,
                  .is_cancelled = false,
                  .listener = {}};
      device.ask(device.now(),
                 {.conversation = 0,
                  .prompt = asked.prompt,
                  .terms = {.tokens_max = asked.tokens_max, .sampling = asked.sampling},
                  .observer = &asked.listener,
                  .on_over = [&] {
                    ++asked.over_count;
                    over = device.now();
                  }});
      device.run(120s);
      expect_plain(asked);
      // Without hints the target writes on, so a stall of the way up alone delays nothing.
      if (down) {
        EXPECT_GT(over, end) << "the answer was over before";
      }
    }
  }
}

}  // namespace
}  // namespace edgedraft::client
