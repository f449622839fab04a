#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "shared/runtime/decoder.h"

namespace edgedraft {

// Negative log-probabilities of tokens.
class Surprise {
 public:
  void add(double nats);
  std::uint64_t count() const { return count_; }

  double perplexity() const;
  // The standard error of the perplexity over texts like this one; none for fewer than two tokens.
  std::optional<double> standard_error() const;

 private:
  double sum_ = 0;
  double square_sum_ = 0;
  std::uint64_t count_ = 0;
};

// How badly a model predicts a text, in the way of llama.cpp's tool, so that figures compare: the
// text is cut into windows of `window` tokens, what remains is left out; each window begins with
// `bos`, in the place of its own first token, if the model has one; tokens of a window's second
// half count, so that every one of them has at least half a window before it. A text shorter than a
// window is one window.
//
// Requires  2 <= window <= decoder.positions_max(), tokens of the decoder's vocabulary
Surprise measure_surprise(Decoder& decoder, std::span<const std::uint32_t> tokens,
                          std::optional<std::uint32_t> bos, std::uint32_t window,
                          const std::function<void(std::uint64_t)>& advance);

// How badly it predicts a document, of which all tokens count but the first, or all behind `bos`;
// of one longer than the decoder's positions only these.
//
// Source    SPECTRA, section 3.2
Surprise measure_document(Decoder& decoder, std::span<const std::uint32_t> tokens,
                          std::optional<std::uint32_t> bos);

}  // namespace edgedraft
