#include "client/control/run_control.h"

#include <algorithm>
#include <cstdio>

#include "shared/base/rank_law.h"

namespace edgedraft {
namespace {

constexpr double kBatteryGain = 1.15;
constexpr double kFloor = 0.02;
constexpr double kBatteryFloor = 0.2;
// Passes and tokens before a decision rests on them.
constexpr double kTriedToKnow = 16.0;
constexpr double kRanksRemembered = 400.0;
// Before the first token the drafter's likeliest is taken to be right so often, as if so many had
// been seen.
constexpr double kUsualAcceptance = 0.7;
constexpr double kUsualWeight = 8.0;
constexpr double kNewest = 0.3;
// Answers that a prediction is the mean of.
constexpr std::uint32_t kAnswers = 4;
constexpr std::uint32_t kTokensMin = 32;
constexpr std::uint32_t kTokensMax = 128;

std::size_t index(RunKind kind) {
  return static_cast<std::size_t>(kind);
}

}  // namespace

void RunControl::observe_link(Duration round_trip) {
  const double sample = std::max(seconds(round_trip), 1e-6);
  known_.round_trip =
      known_.round_trip > 0.0 ? known_.round_trip + 0.5 * (sample - known_.round_trip) : sample;
}

void RunControl::observe_pass(std::uint32_t rows, Duration taken) {
  known_.pass.add(rows, std::max(seconds(taken), 1e-6));
}

void RunControl::observe_step(std::uint32_t nodes, Duration taken) {
  known_.step.add(nodes, std::max(seconds(taken), 1e-6));
}

void RunControl::observe_rank(std::uint32_t rank, std::uint32_t tried) {
  const bool missed_all = rank >= tried;
  const std::vector<double> before = missed_all ? ranks() : std::vector<double>();
  if (known_.tried >= kRanksRemembered) {
    const double keep = (kRanksRemembered - 1.0) / known_.tried;
    for (double& right : known_.right) right *= keep;
    known_.tried *= keep;
  }
  known_.tried += 1.0;
  if (!missed_all) {
    if (rank < known_.right.size()) known_.right[rank] += 1.0;
    return;
  }
  double missed = 1.0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i < tried) {
      missed -= before[i];
    } else {
      known_.right[i] += before[i] / missed;
    }
  }
}

void RunControl::observe_run(const Decision& done, std::uint32_t tokens, Duration taken) {
  if (done.tokens_per_second <= 0.0 || tokens == 0 || taken <= Duration::zero()) return;
  const double came = tokens / seconds(taken) / done.tokens_per_second * done.correction;
  double& known = known_.came_by_predicted[index(done.kind)];
  known = std::clamp(known > 0.0 ? known + kNewest * (came - known) : came, 0.2, 5.0);
}

void RunControl::observe_answer(bool drafts) {
  known_.streamed_answers = drafts ? 0 : known_.streamed_answers + 1;
}

bool RunControl::knows_enough() const {
  return known_.pass.known() && known_.step.known() && known_.tried >= kTriedToKnow &&
         known_.round_trip > 0.0;
}

std::vector<double> RunControl::ranks() const {
  std::vector<double> ranks = rank_law(kUsualAcceptance);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i] = (ranks[i] * kUsualWeight + known_.right[i]) / (kUsualWeight + known_.tried);
  }
  return ranks;
}

double RunControl::correction(RunKind kind) const {
  const auto came = [&](RunKind of) { return known_.came_by_predicted[index(of)]; };
  if (came(kind) > 0.0) return came(kind);
  // What disturbs drafting ahead disturbs both ways of it. A stream is predicted from the pass
  // alone, which is measured.
  double other = 0.0;
  if (kind == RunKind::overlap) other = came(RunKind::economy);
  if (kind == RunKind::economy) other = came(RunKind::overlap);
  return other > 0.0 ? other : 1.0;
}

double RunControl::predict(RunKind kind, std::uint32_t breadth, double floor,
                           std::uint32_t tokens) const {
  const auto half = [&](double, std::uint32_t = 0) { return known_.round_trip / 2.0; };
  const RunModel model{.up = half,
                       .down = half,
                       .pass = [&](std::uint32_t rows) { return known_.pass.at(rows); },
                       .step = known_.step.at(breadth),
                       .ranks = ranks(),
                       .shape = {.breadth = breadth},
                       .floor = floor,
                       .prompt_rows = 1};
  return correction(kind) / forecast(model, kind, tokens, kAnswers, 1).seconds;
}

RunControl::Decision RunControl::drafting(RunKind kind, std::uint32_t breadth, std::uint32_t tokens,
                                          bool on_battery) const {
  Decision way{.kind = kind, .breadth = breadth, .floor = on_battery ? kBatteryFloor : kFloor};
  if (!knows_enough()) return way;
  way.correction = correction(kind);
  way.tokens_per_second =
      predict(kind, breadth, way.floor, std::clamp(tokens, kTokensMin, kTokensMax));
  return way;
}

RunControl::Decision RunControl::try_drafting(std::uint32_t breadth, std::uint32_t tokens,
                                              bool on_battery) {
  const Decision tried = drafting(RunKind::overlap, breadth, tokens, on_battery);
  char text[100];
  std::snprintf(text, sizeof text, "tried again behind streamed answers, %.0f tokens/s expected",
                tried.tokens_per_second);
  why_ = text;
  return tried;
}

RunControl::Decision RunControl::decide(std::uint32_t breadth_max, std::uint32_t tokens,
                                        bool on_battery) {
  const Decision wide = drafting(RunKind::overlap, breadth_max, tokens, on_battery);
  if (!knows_enough()) {
    why_ = "not measured yet";
    return wide;
  }
  const double stream_correction = correction(RunKind::stream);
  const Decision stream{.kind = RunKind::stream,
                        .breadth = breadth_max,
                        .floor = wide.floor,
                        .tokens_per_second = stream_correction / known_.pass.at(1),
                        .correction = stream_correction};
  const Decision economy = drafting(RunKind::economy, breadth_max, tokens, on_battery);
  Decision best = wide;
  if (breadth_max > 1) {
    const Decision narrow = drafting(RunKind::overlap, 1, tokens, on_battery);
    if (kAsFast * narrow.tokens_per_second > wide.tokens_per_second) best = narrow;
  }
  if (economy.tokens_per_second >= kAsFast * best.tokens_per_second) best = economy;
  const double gain = on_battery ? kBatteryGain : 1.0 / kAsFast;
  if (best.tokens_per_second < gain * stream.tokens_per_second) best = stream;
  char text[200];
  std::snprintf(text, sizeof text,
                "tokens/s: overlap %.0f, economy %.0f, stream %.0f (likeliest token right %.0f %%, "
                "link %.1f ms, pass %.1f ms, step %.1f ms%s)",
                wide.tokens_per_second, economy.tokens_per_second, stream.tokens_per_second,
                100.0 * ranks()[0], 1e3 * known_.round_trip, 1e3 * known_.pass.at(1),
                1e3 * known_.step.at(breadth_max), on_battery ? ", on battery" : "");
  why_ = text;
  return best;
}

}  // namespace edgedraft
