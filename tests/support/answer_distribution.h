#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "shared/runtime/decoder.h"
#include "tests/support/toy_models.h"

// Checks that answers occur as often as their distribution says.
namespace edgedraft::testing {

// Length of the compared answers. Longer ones have too many outcomes for a few thousand draws.
inline constexpr std::size_t kAnswerTokens = 3;

// A toy model's logits after any text, each computed once.
class KnownLogits {
 public:
  KnownLogits(Decoder& decoder, Backend& backend) : decoder_(decoder), backend_(backend) {}

  std::span<const float> behind(const std::vector<std::uint32_t>& text) {
    auto [kept, is_new] = known_.try_emplace(text);
    if (is_new) {
      KvCache cache = decoder_.make_cache();
      const std::uint32_t rows = decoder_.append(cache, text);
      kept->second.resize(kToyVocabulary);
      backend_.read(decoder_.logits(rows - 1, 1), kept->second);
    }
    return kept->second;
  }

 private:
  Decoder& decoder_;
  Backend& backend_;
  std::map<std::vector<std::uint32_t>, std::vector<float>> known_;
};

class AnswerDistribution {
 public:
  using Tokens = std::vector<std::uint32_t>;

  // Answers have `count` tokens or end with the end token; `next` returns the distribution of the
  // token after a prefix.
  AnswerDistribution(std::size_t count, std::function<std::vector<double>(const Tokens&)> next)
      : count_(count), next_(std::move(next)) {}

  // Number of answers that a test draws.
  static std::uint64_t draws() {
    const char* const wanted = std::getenv("EDGEDRAFT_TEST_DRAWS");
    return wanted != nullptr ? std::stoull(wanted) : 5000;
  }

  void add(Tokens answer) {
    if (answer.size() > count_) answer.resize(count_);
    ++counts_[answer];
    ++total_;
  }

  void expect() {
    collect({}, 1.0);
    double chi_square = 0.0;
    int cells = 0;
    Cell rare;
    const auto add = [&](const Cell& cell) {
      chi_square += (cell.count - cell.expected) * (cell.count - cell.expected) / cell.expected;
      ++cells;
    };
    for (const auto& [answer, count] : counts_) EXPECT_TRUE(expected_.contains(answer));
    for (const auto& [answer, probability] : expected_) {
      const Cell cell{.expected = probability * static_cast<double>(total_),
                      .count = static_cast<double>(counts_[answer])};
      if (cell.expected >= 10.0) {
        add(cell);
      } else {
        rare.expected += cell.expected;
        rare.count += cell.count;
      }
    }
    if (rare.expected > 0.0) add(rare);
    EXPECT_GT(cells, 20);
    // Five standard deviations above the mean by chance.
    EXPECT_LT(chi_square, cells - 1 + 5.0 * std::sqrt(2.0 * (cells - 1)));
  }

 private:
  struct Cell {
    double expected = 0.0;
    double count = 0.0;
  };

  // `reached` is the probability of `answer`.
  void collect(const Tokens& answer, double reached) {
    if (answer.size() == count_ || (!answer.empty() && answer.back() == kToyEndToken)) {
      expected_[answer] = reached;
      return;
    }
    const std::vector<double> next = next_(answer);
    for (std::uint32_t token = 0; token < next.size(); ++token) {
      if (next[token] == 0.0) continue;
      Tokens longer = answer;
      longer.push_back(token);
      collect(longer, reached * next[token]);
    }
  }

  std::size_t count_;
  std::function<std::vector<double>(const Tokens&)> next_;
  std::map<Tokens, double> expected_;
  std::map<Tokens, std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

}  // namespace edgedraft::testing
