#include "tests/bench/engine_passes.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "shared/base/check.h"
#include "shared/base/clock.h"
#include "shared/base/random.h"

namespace edgedraft::bench {
namespace {

// Memory for the timed sequences, the prompt's, and one neighbour of each kind.
std::unique_ptr<KvPool> make_pool(Decoder& decoder, const Passes::Options& options) {
  if (options.page_slots == 0) return nullptr;
  KvPool::Size size = decoder.pool_size(0, options.kv_type, options.page_slots);
  size.page_count = (options.sessions + 3) * size.pages_for(decoder.slots_max());
  return std::make_unique<KvPool>(decoder.backend(), size);
}

}  // namespace

Passes::Passes(Decoder& decoder, const Options& options)
    : decoder_(decoder), options_(options), pool_(make_pool(decoder, options)) {
  for (std::uint32_t i = 0; i < options.sessions; ++i) {
    caches_.push_back(make_cache());
    fill(caches_.back());
  }
}

Matrix Passes::run(std::uint32_t width, std::size_t sessions) {
  const auto rows = tokens(width, 2);
  std::vector<std::uint32_t> positions(width);
  for (std::uint32_t i = 0; i < width; ++i) positions[i] = options_.context + i;
  std::vector<SequenceRows> batch;
  for (KvCache& cache : std::span(caches_).first(sessions)) {
    batch.push_back({.cache = &cache,
                     .tokens = rows,
                     .batch = {.positions = positions,
                               .prefix = options_.context,
                               .first_slot = options_.context,
                               .masks = std::span(masks_).first(width)}});
  }
  decoder_.forward(batch);
  return decoder_.logits(0, static_cast<std::uint32_t>(sessions) * width);
}

void Passes::run_and_wait(std::uint32_t width) {
  float number = 0.0f;
  const Matrix logits = run(width, caches_.size());
  decoder_.backend().read(logits.row_range(0, 1).column_range(0, 1), {&number, 1});
}

void Passes::check(std::uint32_t width) {
  const std::vector<float> alone = first_row(1, 1);
  const std::vector<float> together = first_row(width, caches_.size());
  if (std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)) != 0) {
    throw Failure({Errc::unsupported, "wrong answer at width " + std::to_string(width)});
  }
}

double Passes::prompt_seconds(std::uint32_t count) {
  const auto prompt = tokens(count, 3);
  KvCache cache = make_cache();
  const Instant start = Clock::now();
  const std::uint32_t rows = decoder_.append(cache, prompt);
  float number = 0.0f;
  decoder_.backend().read(decoder_.logits(rows - 1, 1).column_range(0, 1), {&number, 1});
  return seconds(Clock::now() - start);
}

std::uint32_t Passes::mismatches(std::uint32_t count) {
  constexpr std::uint32_t kRows = 64;
  KvCache cache = make_cache();
  std::vector<std::uint32_t> text = tokens(1, 4);
  std::vector<std::uint32_t> chosen(1);
  while (text.size() <= count) {
    decoder_.append(cache, std::span(text).last(1));
    decoder_.backend().argmax({.logits = decoder_.logits(0, 1), .tokens = chosen});
    text.push_back(chosen[0]);
  }
  // A new cache, because truncating the old one releases its pages.
  KvCache again = make_cache();
  std::uint32_t different = 0;
  for (std::uint32_t first = 0; first < count; first += kRows) {
    const std::uint32_t rows = std::min(kRows, count - first);
    decoder_.append(again, std::span(text).subspan(first, rows));
    chosen.resize(rows);
    decoder_.backend().argmax({.logits = decoder_.logits(0, rows), .tokens = chosen});
    for (std::uint32_t row = 0; row < rows; ++row) {
      different += chosen[row] != text[first + row + 1] ? 1 : 0;
    }
  }
  return different;
}

// Its pages, if any, interleave with those of another growing sequence.
KvCache Passes::make_cache() {
  if (!pool_) return decoder_.make_cache(options_.kv_type);
  KvCache cache = decoder_.make_cache(*pool_);
  KvCache other = decoder_.make_cache(*pool_);
  while (cache.slots() < cache.capacity()) {
    const std::uint32_t more = cache.slots() + pool_->size().page_slots;
    for (KvCache* grown : {&cache, &other}) {
      EDGEDRAFT_CHECK(grown->reserve(std::min(more, grown->capacity())));
    }
  }
  return cache;
}

// A context of synthetic keys and values. Times do not depend on the values, and running thousands
// of tokens would take minutes.
void Passes::fill(KvCache& cache) {
  const std::uint32_t context = options_.context;
  std::uint32_t cols = 1;  // widest
  for (const std::uint32_t own : decoder_.config().kv_cols()) cols = std::max(cols, own);
  const OwnedMatrix rows(decoder_.backend(), std::max(context, 1u), cols);
  std::vector<float> numbers(std::size_t{rows.all().rows} * cols);
  Random random(1);
  for (float& number : numbers) number = static_cast<float>(2.0 * random.uniform() - 1.0);
  decoder_.backend().write(rows.all(), numbers);
  for (std::size_t layer = 0; layer < cache.keys().size(); ++layer) {
    for (const CacheView& view : {cache.keys()[layer], cache.values()[layer]}) {
      decoder_.backend().store({.x = rows.rows(context, view.cols()), .cache = view, .first = 0});
    }
  }
  cache.set_length(context);
}

std::vector<std::uint32_t> Passes::tokens(std::uint32_t count, std::uint32_t seed) const {
  std::vector<std::uint32_t> numbers(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    numbers[i] = (i * 7919 + seed * 104729) % decoder_.config().vocabulary_count;
  }
  return numbers;
}

std::vector<float> Passes::first_row(std::uint32_t width, std::size_t sessions) {
  const Matrix logits = run(width, sessions).row_range(0, 1);
  std::vector<float> row(logits.cols);
  decoder_.backend().read(logits, row);
  return row;
}

}  // namespace edgedraft::bench
