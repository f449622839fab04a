// Compares answers under RunControl with plain ones, for simulated servers, links and drafters.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <ostream>
#include <utility>
#include <vector>

#include "client/control/run_control.h"
#include "shared/base/random.h"
#include "shared/forecast/rank_probabilities.h"

namespace edgedraft::simulated {
using namespace client;
namespace {

constexpr std::uint32_t kTokens = 128;
constexpr std::uint32_t kBreadth = 8;
constexpr double kPass = 0.060;
// Factor of drafting times over the model's prediction.
constexpr double kUnforeseen = 1.08;

struct World {
  double round_trip;  // seconds, as are the other times
  double beside;      // factor on passes while the device drafts on the server's processor
  double row;         // share of a pass that each further row adds
  double step;
  double acceptance;
  double noise = 0.15;  // standard deviation of the server's load

  double pass(std::uint32_t rows) const { return kPass * beside * (1.0 + row * (rows - 1)); }
};

void PrintTo(const World& world, std::ostream* out) {
  *out << "round trip " << world.round_trip << ", beside " << world.beside << ", row " << world.row
       << ", step " << world.step << ", acceptance " << world.acceptance;
}

Duration duration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

struct Verdict {
  double taken;  // since the verdict before
  std::uint32_t tokens;
  std::uint32_t rows;
};

// One answer of a world. Returns seconds until its end, depending on how it is written.
class Answer {
 public:
  Answer(const World& world, std::uint64_t seed)
      : world_(world), seed_(seed), random_(mix64(seed)) {}

  double plain_seconds() const {
    double now = 0.0;
    for (std::uint32_t i = 0; i < kTokens; ++i) now += kPass * load(now);
    return now;
  }

  double drafted_seconds(RunKind kind) {
    double now = 0.0;
    for (std::uint32_t count = 0; count < kTokens;) {
      const Verdict verdict = next({.kind = kind, .breadth = kBreadth}, count);
      now += verdict.taken * load(now);
      count += verdict.tokens;
    }
    return now;
  }

  double controlled_seconds(RunControl& control) {
    control.observe_link(duration(world_.round_trip));
    control.begin_answer();
    RunControl::Decision doing = control.decide(kBreadth, kTokens, false);
    const bool may_draft = doing.may_draft;
    double now = 0.0;
    double since = 0.0;
    double settled = doing.drafts() ? world_.round_trip : 0.0;
    double first_hints = world_.round_trip + world_.step;
    bool begins = true;
    std::uint32_t counted = 0;
    for (std::uint32_t count = 0; count < kTokens;) {
      const bool has_hints = doing.drafts() && now >= first_hints;
      Verdict verdict = has_hints ? next(doing, count) : Verdict{kPass, 1, 1};
      if (doing.drafts() && !has_hints) verdict.taken *= world_.beside * kUnforeseen;
      verdict.tokens = std::min(verdict.tokens, kTokens - count);
      const double load = this->load(now);
      now += verdict.taken * load;
      count += verdict.tokens;
      counted += verdict.tokens;
      const double pass = doing.drafts() ? world_.pass(verdict.rows) : kPass;
      control.observe_pass(verdict.rows, duration(pass * load));
      if (doing.drafts()) control.observe_step(doing.breadth, duration(world_.step * load));
      if (has_hints) observe_ranks(control, verdict.tokens, doing.breadth);

      // Mirrors Generation::look_at_run().
      const Duration taken = duration(now - since);
      if (begins) {
        if (now < settled) continue;
      } else {
        const bool ends = count == kTokens && counted >= RunControl::kWindowMin;
        if (!ends && !control.is_due(counted, taken)) continue;
        control.observe_run(doing, counted, taken);
      }
      since = now;
      counted = 0;
      if (std::exchange(begins, false) || count == kTokens || !may_draft) continue;
      const RunControl::Decision before =
          std::exchange(doing, control.decide(kBreadth, kTokens - count, false));
      if (doing.kind == before.kind) continue;
      begins = true;
      settled = doing.drafts() ? now + world_.round_trip : now;
      if (!before.drafts()) first_hints = now + world_.round_trip + world_.step;
    }
    return now;
  }

 private:
  // Factor on all times at `now`.
  double load(double now) const {
    Random random(mix64(seed_ * 31 + static_cast<std::uint64_t>(now / (4.0 * kPass))));
    const double sum = random.uniform() + random.uniform() + random.uniform();
    return std::exp(world_.noise * 2.0 * (sum - 1.5));
  }

  void observe_ranks(RunControl& control, std::uint32_t count, std::uint32_t tried) {
    const std::vector<double> ranks = rank_probabilities(world_.acceptance);
    for (std::uint32_t i = 0; i < count; ++i) {
      double left = random_.uniform();
      std::uint32_t rank = 0;
      while (rank < ranks.size() && left >= ranks[rank]) left -= ranks[rank++];
      control.observe_rank(rank, tried);
    }
  }

  // The verdict after the first `count` tokens.
  Verdict next(const RunControl::Decision& way, std::uint32_t count) {
    if (!way.drafts()) return {kPass, 1, 1};
    auto& verdicts = verdicts_[{way.kind, way.breadth}];
    if (verdicts.empty()) verdicts = drafted(way);
    std::uint32_t end = 0;
    for (const Verdict& verdict : verdicts) {
      end += verdict.tokens;
      if (end > count) return {verdict.taken, end - count, verdict.rows};
    }
    return {world_.pass(1), 1, 1};
  }

  std::vector<Verdict> drafted(const RunControl::Decision& way) const {
    std::vector<Verdict> verdicts;
    std::uint32_t rows = 1;
    double before = -1.0;
    const double half = world_.round_trip / 2.0;
    const RunModel model{.up = [&](double) { return half; },
                         .down =
                             [&](double now, std::uint32_t tokens) {
                               if (before >= 0.0) {
                                 verdicts.push_back({(now - before) * kUnforeseen, tokens, rows});
                               }
                               before = now;
                               return half;
                             },
                         .pass =
                             [&](std::uint32_t count) {
                               rows = count;
                               return world_.pass(count);
                             },
                         .step = world_.step,
                         .ranks = rank_probabilities(world_.acceptance),
                         .shape = {.breadth = way.breadth},
                         .floor = way.floor,
                         .prompt_rows = 1};
    forecast(model, way.kind, kTokens + 1, 1, seed_);
    return verdicts;
  }

  const World& world_;
  std::uint64_t seed_;
  Random random_;
  std::map<std::pair<RunKind, std::uint32_t>, std::vector<Verdict>> verdicts_;
};

// Speed of an answer relative to plain decoding. Updates `known`. If `told`, the server sent its
// pass times, measured before any device drafted beside it.
double answer_ratio(RunKnowledge& known, const World& world, std::uint64_t seed, bool told) {
  RunControl control(known);
  std::vector<PassTime> times;
  for (const std::uint32_t rows : {1u, 8u, 64u}) {
    const double seconds = world.pass(rows) / world.beside;
    times.push_back({rows, static_cast<std::uint32_t>(1e6 * seconds)});
  }
  if (told) control.set_pass_times(times);
  Answer answer(world, seed);
  const double ratio = answer.plain_seconds() / answer.controlled_seconds(control);
  known = control.known();
  return ratio;
}

double drafting_ratio(const World& world, std::uint64_t seed) {
  Answer answer(world, seed);
  return answer.plain_seconds() / std::min(answer.drafted_seconds(RunKind::overlap),
                                           answer.drafted_seconds(RunKind::economy));
}

constexpr std::array<std::uint64_t, 3> kSeeds{1, 2, 3};

class RunControlSimulationTest : public ::testing::TestWithParam<bool> {};

TEST_P(RunControlSimulationTest, IsNotSlowerThanPlainAndFindsWhereDraftingPays) {
  constexpr std::uint64_t kAnswers = 3;
  double sum = 0.0;
  std::uint32_t worlds = 0;
  for (const double round_trip : {0.010, 0.0536, 0.200}) {
    for (const double beside : {1.0, 1.6}) {
      for (const double row : {0.02, 0.25}) {
        for (const double step : {0.004, 0.050}) {
          for (const double acceptance : {0.2, 0.85}) {
            const World world{.round_trip = round_trip,
                              .beside = beside,
                              .row = row,
                              .step = step,
                              .acceptance = acceptance};
            SCOPED_TRACE(::testing::PrintToString(world));
            double first = 0.0;
            double second = 0.0;
            double later = 0.0;
            double drafting = 0.0;
            for (const std::uint64_t seed : kSeeds) {
              RunKnowledge known;
              first += answer_ratio(known, world, 100 * seed, GetParam()) / kSeeds.size();
              second += answer_ratio(known, world, 100 * seed + 1, GetParam()) / kSeeds.size();
              for (std::uint64_t i = 2; i < kAnswers; ++i) {
                later += answer_ratio(known, world, 100 * seed + i, GetParam()) / kSeeds.size();
              }
              drafting += drafting_ratio(world, 100 * seed + 1) / kSeeds.size();
            }
            later = (second + later) / (kAnswers - 1);
            EXPECT_GE(first, 0.9);
            EXPECT_GE(later, 0.95);
            if (drafting > 1.25) {
              EXPECT_GE(second, 1.0 + 0.6 * (drafting - 1.0)) << "drafting " << drafting;
            }
            sum += (first + (kAnswers - 1) * later) / kAnswers;
            ++worlds;
          }
        }
      }
    }
  }
  EXPECT_GE(sum / worlds, 1.0);
}

// A drafter on the server's processor: passes of 60 ms take 96 ms with drafts.
TEST_P(RunControlSimulationTest, LearnsWhichPromptsGainIfDraftingSlowsServer) {
  World world{.round_trip = 0.0536, .beside = 1.35, .row = 0.06, .step = 0.008, .acceptance = 0.0};
  constexpr std::array kAcceptance{0.1, 0.6, 0.9, 0.3, 0.85, 0.75};
  std::array<double, kAcceptance.size()> best{};
  double sum = 0.0;
  double gained = 0.0;
  double to_gain = 0.0;
  constexpr std::uint64_t kRounds = 3;
  for (const std::uint64_t seed : kSeeds) {
    RunKnowledge known;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < kAcceptance.size(); ++i) {
        world.acceptance = kAcceptance[i];
        const std::uint64_t answer = 1000 * seed + 10 * round + i;
        const double ratio = answer_ratio(known, world, answer, GetParam());
        EXPECT_GE(ratio, 0.85) << i << " in round " << round;
        best[i] = std::max(best[i], ratio);
        sum += ratio / (kSeeds.size() * kRounds * kAcceptance.size());
        const double drafting = drafting_ratio(world, answer);
        if (drafting < 1.2) continue;
        gained += ratio - 1.0;
        to_gain += drafting - 1.0;
      }
    }
  }
  EXPECT_GE(sum, 1.0);
  EXPECT_GE(gained, 0.5 * to_gain) << "half of the possible gain, if drafting gains a fifth";
  for (const double ratio : best) EXPECT_GE(ratio, 0.9);
}

INSTANTIATE_TEST_SUITE_P(All, RunControlSimulationTest, ::testing::Bool(),
                         [](const auto& mode) { return mode.param ? "told" : "untold"; });

}  // namespace
}  // namespace edgedraft::simulated
