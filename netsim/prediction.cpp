#include "netsim/prediction.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "netsim/link/options.h"
#include "netsim/link/stream_link.h"
#include "shared/forecast/rank_probabilities.h"

namespace edgedraft::netsim {
namespace {

// TCP, TLS and Hello take a round trip each, plus processing.
constexpr int kSetupRoundTrips = 3;
constexpr double kSetupSeconds = 0.040;
// A verdict without its activations, or a message of hints.
constexpr std::size_t kMessageBytes = 300;
// Drafting waits for the activations of the newest tokens, which are sent first.
constexpr std::uint32_t kFirstRows = 64;

Instant at(double seconds) {
  return Instant{} + from_seconds(seconds);
}

// Travel time of verdicts by token count; their activations travel with them or after them.
std::function<double(double, std::uint32_t)> way(const LinkOptions& options, Duration round_trip,
                                                 std::uint32_t row_bytes, bool rows_follow,
                                                 std::uint64_t seed) {
  // Shared, because std::function copies its target.
  auto link = std::make_shared<StreamLink>(options, round_trip, seed);
  return [=](double now, std::uint32_t tokens) {
    const std::size_t rows = std::size_t{row_bytes} * tokens;
    const Instant arrival = link->arrival(at(now), kMessageBytes + (rows_follow ? 0 : rows));
    if (rows_follow && rows > 0) (void)link->arrival(at(now), rows);
    return seconds(arrival - at(now));
  };
}

Duration mean_round_trip(const NetworkProfile& network) {
  return mean_delay(network.up) + mean_delay(network.down);
}

}  // namespace

double setup_seconds(const NetworkProfile& network) {
  return kSetupSeconds + kSetupRoundTrips * seconds(mean_round_trip(network));
}

RunForecast predict(const PredictedRun& run, std::uint32_t answers, std::uint64_t seed) {
  const LinkOptions& up = run.network.up;
  const LinkOptions& down = run.network.down;
  const Duration round_trip = mean_round_trip(run.network);
  const std::uint32_t row_bytes = run.kind == RunKind::stream ? 0 : run.row_bytes;
  const bool rows_follow = run.kind != RunKind::sequential;
  const auto hints = way(up, round_trip, 0, rows_follow, 2 * seed);
  RunModel model{.up = [&](double now) { return hints(now, 0); },
                 .down = way(down, round_trip, row_bytes, rows_follow, 2 * seed + 1),
                 .pass = [&](std::uint32_t rows) { return seconds(run.pace.target_pass(rows)); },
                 .step = seconds(run.pace.draft_step(run.drafter, PaceProfile::Place::device)),
                 .ranks = rank_probabilities(run.acceptance),
                 .shape = run.shape,
                 .prompt_rows = run.prompt_rows,
                 .setup = run.setup ? setup_seconds(run.network) : 0.0};
  if (down.bits_per_second > 0) {
    const double bytes = static_cast<double>(row_bytes) * std::min(run.prompt_rows, kFirstRows);
    model.rows_delay = 8.0 * bytes / static_cast<double>(down.bits_per_second);
  }
  return forecast(model, run.kind, run.tokens, answers, seed);
}

}  // namespace edgedraft::netsim
