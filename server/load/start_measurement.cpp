#include "server/load/start_measurement.h"

#include <algorithm>
#include <array>

#include "server/sessions/tap_rows.h"

namespace edgedraft {
namespace {

constexpr std::array<std::uint32_t, 6> kWidths = {1, 8, 32, 64, 128, 256};
constexpr std::array<std::uint32_t, 2> kDelivered = {1, 4};
constexpr std::uint32_t kRepetitionsMin = 3;
constexpr std::uint32_t kRepetitionsMax = 20;
// The part of the whole time that each count may take for more repetitions than the least.
constexpr int kPartsOfTime = 64;

// As a pass of sessions that wait for tokens: every row decides.
void run_rows(Decoder& decoder, KvCache& cache, std::uint32_t rows) {
  std::vector<std::uint32_t> tokens(rows);
  std::vector<std::uint32_t> positions(rows);
  for (std::uint32_t i = 0; i < rows; ++i) {
    tokens[i] = i % decoder.config().vocabulary_count;
    positions[i] = std::min(i, decoder.positions_max() - 1);
  }
  decoder.forward(cache, tokens,
                  {.positions = positions,
                   .prefix = 0,
                   .first_slot = 0,
                   .masks = decoder.causal_masks().first(rows)});
  std::vector<std::uint32_t> likeliest(rows);
  decoder.backend().argmax({.logits = decoder.logits(0, rows), .tokens = likeliest});
}

}  // namespace

StartCosts measure_start_costs(Decoder& decoder, KvCache& cache, const StartMeasurement& how) {
  const Instant end = how.now() + how.time_max;
  const auto timed = [&](const auto& work) {
    const Instant started = how.now();
    work();
    return how.now() - started;
  };
  // The first of each is left out: it takes memory, and reads weights from the disk. The fastest of
  // the others was disturbed the least, and disturbed passes of one width beside quiet ones of
  // another would tell all clients to stream, or none. False where more of it would take too long.
  const auto measure = [&](std::vector<StartCosts::Sample>& to, std::uint32_t count,
                           const auto& work) {
    const Duration first = timed(work);
    if (how.now() + kRepetitionsMin * first > end) return false;
    const Instant soon = how.now() + how.time_max / kPartsOfTime;
    Duration fastest = timed(work);
    for (std::uint32_t i = 1;
         i < kRepetitionsMin || (i < kRepetitionsMax && how.now() + fastest < soon); ++i) {
      fastest = std::min(fastest, timed(work));
    }
    to.push_back({.count = count, .time = fastest});
    return true;
  };

  StartCosts costs;
  for (const std::uint32_t width : kWidths) {
    if (width > how.rows_max) break;
    if (!costs.passes.empty()) {
      // At worst all of a pass is its rows.
      const StartCosts::Sample& last = costs.passes.back();
      if (how.now() + (kRepetitionsMin + 1) * (width / last.count) * last.time > end) break;
    }
    const auto pass = [&] { run_rows(decoder, cache, width); };
    if (!measure(costs.passes, width, pass)) break;
  }
  if (costs.passes.size() < 2) return {};
  cache.set_length(kDelivered.back());
  for (const std::uint32_t count : kDelivered) {
    // One of the drafters' turn after the other's: what is wanted is the mean.
    const auto deliver = [&] {
      for (Tap* const tap : how.taps) quantized_rows(*tap, cache, 0, count);
    };
    if (how.taps.empty() || !measure(costs.deliveries, count, deliver)) break;
    costs.deliveries.back().time /= static_cast<Duration::rep>(how.taps.size());
  }
  cache.set_length(0);
  return costs;
}

}  // namespace edgedraft
