#include "server/proposers/sequence_dictionaries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "server/proposers/spectra_core.h"
#include "shared/base/random.h"

namespace edgedraft::server {
namespace {

using Tokens = std::vector<std::uint32_t>;

// Rebuilds both dictionaries from every addition, in order.
struct BruteForceDictionaries {
  struct Addition {
    Tokens key;
    Tokens value;
  };
  std::vector<Addition> forward;
  std::vector<Addition> backward;

  std::vector<Tokens> sequences(std::uint32_t key, std::size_t count_max) const {
    std::vector<Tokens> newest;
    for (auto it = forward.rbegin(); it != forward.rend() && newest.size() < count_max; ++it) {
      const bool seen = std::ranges::find(newest, it->value) != newest.end();
      if (it->key == Tokens{key} && !seen) newest.push_back(it->value);
    }
    return newest;
  }
  const std::uint32_t* next(const Tokens& key) const {
    for (auto it = backward.rbegin(); it != backward.rend(); ++it) {
      if (it->key == key) return it->value.data();
    }
    return nullptr;
  }
};

std::vector<Tokens> sequences_of(const ForwardDictionary& dictionary, std::uint32_t key) {
  const auto found = dictionary.find(key);
  return {found.begin(), found.end()};
}

TEST(SequenceDictionariesTest, KeepsNewestSequencesPerKey) {
  ForwardDictionary dictionary({.keys_max = 100, .sequences_max = 3});
  BruteForceDictionaries expected;
  Random random(1);
  for (int step = 0; step < 2000; ++step) {
    const auto key = static_cast<std::uint32_t>(random.below(5));
    Tokens sequence(1 + random.below(3));
    for (auto& token : sequence) token = static_cast<std::uint32_t>(random.below(3));
    dictionary.add(key, sequence);
    expected.forward.push_back({{key}, sequence});
    for (std::uint32_t k = 0; k < 6; ++k) {
      ASSERT_EQ(sequences_of(dictionary, k), expected.sequences(k, 3));
    }
  }
}

TEST(SequenceDictionariesTest, EvictsLeastRecentlyWrittenKeys) {
  ForwardDictionary forward({.keys_max = 4, .sequences_max = 2});
  BackwardDictionary backward(4);
  std::deque<std::uint32_t> recent;  // newest first
  Random random(2);
  for (std::uint32_t step = 0; step < 500; ++step) {
    const auto key = static_cast<std::uint32_t>(random.below(8));
    forward.add(key, Tokens{step});
    backward.set(Tokens{key, 7}, step);
    std::erase(recent, key);
    recent.push_front(key);
    if (recent.size() > 4) recent.pop_back();
    for (std::uint32_t k = 0; k < 8; ++k) {
      const bool kept = std::ranges::find(recent, k) != recent.end();
      ASSERT_EQ(!forward.find(k).empty(), kept);
      ASSERT_EQ(backward.find(Tokens{k, 7}) != nullptr, kept);
    }
  }
}

// The paper's lines 6 to 15 and 26 to 43, from the recorded text instead of dictionaries.
class SpectraCoreTest : public ::testing::TestWithParam<SpectraCoreOptions> {
 protected:
  static constexpr std::uint32_t kVocabulary = 80;

  // The token that the probed sequence must be extended by.
  static std::uint32_t answer_to(const Probes& probes, const Tokens& likeliest,
                                 const Tokens& sequence) {
    std::uint32_t row = 0;
    for (const std::uint32_t token : sequence) {
      row = probes.rows.child(row, token);
      EXPECT_NE(row, 0u);
    }
    return likeliest.at(row - (probes.rows.row_count() - probes.asked_count));
  }
  void add(const Tokens& sequence) {
    for (std::size_t j = 0; j + 1 < sequence.size(); ++j) {
      const auto end = sequence.begin() + static_cast<std::ptrdiff_t>(j) + 1;
      expected_.forward.push_back({{sequence[j]}, {end, sequence.end()}});
      expected_.backward.push_back({{sequence.begin(), end}, {*end}});
    }
  }
  std::vector<Tokens> expected_guesses(const Tokens& text) const {
    std::vector<Tokens> guesses;
    Tokens written = text;
    while (written.size() < text.size() + options_.n - 1) {
      const std::uint32_t* next = nullptr;
      for (std::size_t k = options_.n - 1; k > 0 && next == nullptr; --k) {
        if (k > written.size()) continue;
        next = expected_.next({written.end() - static_cast<std::ptrdiff_t>(k), written.end()});
      }
      if (next == nullptr) break;
      written.push_back(*next);
    }
    const auto behind = static_cast<std::ptrdiff_t>(text.size());
    if (written.size() > text.size()) guesses.emplace_back(written.begin() + behind, written.end());
    for (const Tokens& sequence : expected_.sequences(text.back(), options_.guesses)) {
      if (std::ranges::find(guesses, sequence) == guesses.end()) guesses.push_back(sequence);
    }
    if (guesses.size() > options_.guesses) guesses.resize(options_.guesses);
    return guesses;
  }

  SpectraCoreOptions options_ = GetParam();
  BruteForceDictionaries expected_;
};

TEST_P(SpectraCoreTest, MatchesBruteForceDictionariesAndGuesses) {
  SpectraCore core(options_);
  Random random(3);
  Tokens text{5, 6, 7, 5, 6, 8};
  std::size_t next = 0;  // round robin
  for (int pass = 0; pass < 60; ++pass) {
    // The whole pool, or as much as fits into a narrow pass.
    const std::uint32_t rows = pass % 3 == 0 ? 2 * (options_.n - 1) + 1 : core.rows_max();
    const std::uint32_t depth = pass % 5 == 0 ? options_.n + 1 : 100;
    const Probes probes = core.ask(text, rows, depth);
    ASSERT_LE(probes.rows.node_count(), rows);
    const std::vector<Tokens> pool(core.pool().begin(), core.pool().end());
    Tokens likeliest(probes.asked_count);
    for (auto& token : likeliest) token = static_cast<std::uint32_t>(random.below(kVocabulary));
    core.learn(text.back(), likeliest);

    const std::size_t count = std::min(options_.width, rows / (options_.n - 1));
    std::vector<Tokens> found;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t turn = (next + i) % pool.size();
      Tokens sequence = pool[turn];
      sequence.push_back(answer_to(probes, likeliest, sequence));
      ASSERT_EQ(core.pool()[turn], Tokens(sequence.begin() + 1, sequence.end()));
      found.push_back(sequence);
    }
    next = (next + count) % pool.size();
    for (const Tokens& sequence : found) add(sequence);

    for (std::uint32_t token = 0; token < kVocabulary; ++token) {
      ASSERT_EQ(sequences_of(core.forward(), token), expected_.sequences(token, options_.guesses));
    }
    // The keys of this pass, and some earlier ones.
    for (std::size_t i = 0; i < std::min<std::size_t>(200, expected_.backward.size()); ++i) {
      const std::size_t back = i < 100 ? i : random.below(expected_.backward.size());
      const Tokens& key =
          expected_.backward[expected_.backward.size() - 1 - back % expected_.backward.size()].key;
      ASSERT_NE(core.backward().find(key), nullptr);
      ASSERT_EQ(*core.backward().find(key), *expected_.next(key));
    }
    text.push_back(likeliest.front());
    GuessList guesses(options_.guesses, options_.n - 1);
    core.guess(text, guesses);
    std::vector<Tokens> guessed;
    for (const Guess& guess : guesses.guesses()) guessed.push_back(guess.tokens);
    ASSERT_EQ(guessed, expected_guesses(text));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, SpectraCoreTest,
                         ::testing::Values(SpectraCoreOptions{},
                                           SpectraCoreOptions{.n = 3, .width = 4, .guesses = 2}));

}  // namespace
}  // namespace edgedraft::server
