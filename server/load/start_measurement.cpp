#include "server/load/start_measurement.h"

#include <algorithm>
#include <array>

namespace edgedraft::server {
namespace {

// In order of need: a slow model may have no time for the later ones.
constexpr std::array<std::uint32_t, 9> kWidths = {1, 8, 2, 4, 32, 16, 64, 128, 256};
constexpr std::uint32_t kRepetitionsMin = 3;
constexpr std::uint32_t kRepetitionsMax = 20;
// Each width may take 1 / kPartsOfTime of the total for extra repetitions.
constexpr int kPartsOfTime = 64;

// Like a pass of decoding sessions: every row decides.
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

std::vector<StartSample> measure_start_costs(Decoder& decoder, KvCache& cache,
                                             const StartMeasurement& how) {
  const Instant end = how.now() + how.time_max;
  std::vector<StartSample> passes;
  for (const std::uint32_t width : kWidths) {
    if (width > how.rows_max) continue;
    const auto timed = [&] {
      const Instant started = how.now();
      run_rows(decoder, cache, width);
      return how.now() - started;
    };
    // The measured widths below it come before this place.
    const auto place =
        std::ranges::find_if(passes, [&](const StartSample& pass) { return pass.rows > width; });
    if (!passes.empty()) {
      // Worst case: time proportional to rows. Width 1 is measured first.
      const StartSample& below = *(place - 1);
      if (how.now() + (kRepetitionsMin + 1) * (width / below.rows) * below.time > end) break;
    }
    // The first run is dropped: it allocates and reads weights from disk. The fastest of the rest
    // has the least noise.
    const Duration first = timed();
    if (how.now() + kRepetitionsMin * first > end) break;
    const Instant soon = how.now() + how.time_max / kPartsOfTime;
    Duration fastest = timed();
    for (std::uint32_t i = 1;
         i < kRepetitionsMin || (i < kRepetitionsMax && how.now() + fastest < soon); ++i) {
      fastest = std::min(fastest, timed());
    }
    passes.insert(place, {.rows = width, .time = fastest});
  }
  if (passes.size() < 2) return {};
  cache.set_length(0);
  return passes;
}

}  // namespace edgedraft::server
