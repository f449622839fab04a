#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "shared/runtime/decoder.h"

namespace edgedraft::client {

// Negative log-probabilities of tokens.
class PerplexityMeter {
 public:
  void add(double nats);
  std::uint64_t count() const { return count_; }

  double perplexity() const;
  // Standard error of the perplexity over similar texts; empty for fewer than two tokens.
  std::optional<double> standard_error() const;

 private:
  double sum_ = 0;
  double square_sum_ = 0;
  std::uint64_t count_ = 0;
};

// Perplexity as llama.cpp's tool measures it, for comparable figures. The text is cut into windows
// of `window` tokens, without the remainder. `bos`, if the model has one, replaces the first token
// of each window. Tokens in a window's second half count, so each has at least half a window before
// it. A text shorter than a window is one window.
//
// Requires  2 <= window <= decoder.positions_max(), tokens of the decoder's vocabulary
PerplexityMeter measure_perplexity(Decoder& decoder, std::span<const std::uint32_t> tokens,
                                   std::optional<std::uint32_t> bos, std::uint32_t window,
                                   const std::function<void(std::uint64_t)>& advance,
                                   DType kv_type = DType::f32);

// Perplexity of a document. All tokens but the first count, or all after `bos`. Beyond the
// decoder's positions, the document is cut.
//
// Source    SPECTRA, section 3.2
PerplexityMeter measure_document(Decoder& decoder, std::span<const std::uint32_t> tokens,
                                 std::optional<std::uint32_t> bos);

}  // namespace edgedraft::client
