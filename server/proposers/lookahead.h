#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "server/proposers/lookahead_window.h"
#include "server/proposers/probing_proposer.h"
#include "server/proposers/sequence_dictionaries.h"
#include "shared/base/random.h"

namespace edgedraft::server {

struct LookaheadOptions {
  LookaheadWindow::Shape window{.n = 5, .width = 15};
  std::uint32_t guesses = 15;  // per pass, and sequences that the n-gram pool keeps per key token
};

// Lookahead decoding: guesses the n-grams in the window's pool that start with the root.
//
// Source    Fu, Bailis, Stoica and Zhang, Break the Sequential Dependency of LLM Inference Using
//           Lookahead Decoding (2024); sizes as in the SPECTRA paper, appendix B
class Lookahead final : public ProbingMethod {
 public:
  // Requires  a window that LookaheadWindow takes
  Lookahead(const LookaheadOptions& options, std::function<bool(std::uint32_t)> is_end);

  std::uint32_t rows_max() const override { return LookaheadWindow::rows_max(options_.window); }
  std::size_t guesses_max() const override { return options_.guesses; }
  std::size_t guess_length_max() const override { return options_.window.n - 1; }

  void guess(std::span<const std::uint32_t> tokens, GuessList& guesses) const override;
  // The whole window or nothing.
  Probes ask(std::span<const std::uint32_t> tokens, std::uint32_t rows_max,
             std::uint32_t depth_max) override;
  void learn(std::uint32_t root, std::span<const std::uint32_t> likeliest) override;

  const ForwardDictionary& pool() const { return pool_; }

 private:
  LookaheadOptions options_;
  std::function<bool(std::uint32_t)> is_end_;
  Random random_{0};
  std::vector<std::uint32_t> text_;  // source of the window's initial tokens
  std::optional<LookaheadWindow> window_;
  ForwardDictionary pool_;
};

}  // namespace edgedraft::server
