#include "client/commands/text_perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "shared/base/check.h"

namespace edgedraft::client {
namespace {

double negative_log_probability(std::span<const float> logits, std::uint32_t token) {
  const float best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - best);
  return std::log(sum) + best - logits[token];
}

// Adds the tokens after index `first` of a window.
void measure_window(Decoder& decoder, std::span<const std::uint32_t> window, std::size_t first,
                    DType kv_type, PerplexityMeter& meter) {
  KvCache cache = decoder.make_cache(kv_type);
  if (first > 0) decoder.append(cache, window.first(first));
  std::vector<float> row(decoder.config().vocabulary_count);
  for (std::size_t at = first; at + 1 < window.size(); at += kMaskRowsMax) {
    const auto count =
        static_cast<std::uint32_t>(std::min<std::size_t>(kMaskRowsMax, window.size() - 1 - at));
    decoder.append(cache, window.subspan(at, count));
    const Matrix logits = decoder.logits(0, count);
    for (std::uint32_t r = 0; r < count; ++r) {
      decoder.backend().read(logits.row_range(r, 1), row);
      meter.add(negative_log_probability(row, window[at + r + 1]));
    }
  }
}

}  // namespace

void PerplexityMeter::add(double nats) {
  sum_ += nats;
  square_sum_ += nats * nats;
  ++count_;
}

double PerplexityMeter::perplexity() const {
  return std::exp(sum_ / static_cast<double>(count_));
}

std::optional<double> PerplexityMeter::standard_error() const {
  if (count_ < 2) return {};
  const auto n = static_cast<double>(count_);
  const double mean = sum_ / n;
  return perplexity() * std::sqrt(std::max(0.0, square_sum_ / n - mean * mean) / (n - 1));
}

PerplexityMeter measure_perplexity(Decoder& decoder, std::span<const std::uint32_t> tokens,
                                   std::optional<std::uint32_t> bos, std::uint32_t window,
                                   const std::function<void(std::uint64_t)>& advance,
                                   DType kv_type) {
  EDGEDRAFT_CHECK(window >= 2 && window <= decoder.positions_max());
  std::vector<std::uint32_t> text;
  if (bos) text.push_back(*bos);
  text.insert(text.end(), tokens.begin(), tokens.end());
  const std::size_t count = std::min<std::size_t>(window, text.size());
  PerplexityMeter meter;
  if (count < 2) return meter;
  for (std::size_t first = 0; first + count <= text.size(); first += count) {
    if (bos) text[first] = *bos;
    measure_window(decoder, std::span(text).subspan(first, count), count / 2, kv_type, meter);
    advance(count);
  }
  return meter;
}

PerplexityMeter measure_document(Decoder& decoder, std::span<const std::uint32_t> tokens,
                                 std::optional<std::uint32_t> bos) {
  EDGEDRAFT_CHECK(decoder.positions_max() >= 2);
  std::vector<std::uint32_t> text;
  if (bos) text.push_back(*bos);
  text.insert(text.end(), tokens.begin(), tokens.end());
  PerplexityMeter meter;
  if (text.size() < 2) return meter;
  measure_window(decoder,
                 std::span(text).first(std::min<std::size_t>(text.size(), decoder.positions_max())),
                 0, DType::f32, meter);
  return meter;
}

}  // namespace edgedraft::client
