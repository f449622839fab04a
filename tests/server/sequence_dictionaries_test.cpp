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
  bool knows(std::uint32_t key) const { return !sequences(key, 1).empty(); }
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
      ASSERT_EQ(dictionary.knows(k), expected.knows(k));
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
      ASSERT_EQ(forward.knows(k), kept);
      ASSERT_EQ(backward.find(Tokens{k, 7}) != nullptr, kept);
    }
  }
}

// The paper's lines 6 to 15 and 26 to 43, from the recorded text instead of dictionaries.
class SpectraCoreTest : public ::testing::TestWithParam<SpectraCoreOptions> {
 protected:
  static constexpr std::uint32_t kVocabulary = 80;
  static constexpr std::uint32_t kLikeliest = 4;

  // The tokens that rows of the i-th probed sequence must be extended by.
  Tokens answer_to(const Probes& probes, const Tokens& likeliest, const Tokens& sequence,
                   std::uint32_t i) const {
    std::uint32_t row = 0;
    for (std::uint32_t j = 0; j < sequence.size(); ++j) {
      if (options_.staggered) {
        // One row per token, token j of all sequences before token j + 1. The first token of a
        // sequence follows the first token of the sequence before.
        const std::uint32_t parent = j == 0 ? i : row;
        row = 1 + j * probes.asked_count + i;
        EXPECT_EQ(probes.rows.parent(row), parent);
        EXPECT_EQ(probes.rows.token(row), sequence[j]);
      } else {
        row = probes.rows.child(row, sequence[j]);
        EXPECT_NE(row, 0u);
      }
    }
    const std::uint32_t index = row - (probes.rows.row_count() - probes.asked_count);
    return {likeliest.begin() + index * kLikeliest, likeliest.begin() + (index + 1) * kLikeliest};
  }
  void add(const Tokens& sequence) {
    for (std::size_t j = 0; j + 1 < sequence.size(); ++j) {
      const auto end = sequence.begin() + static_cast<std::ptrdiff_t>(j) + 1;
      if (options_.forward && (j == 0 || options_.sub_ngrams)) {
        expected_.forward.push_back({{sequence[j]}, {end, sequence.end()}});
      }
      if (options_.backward && (j + 2 == sequence.size() || options_.sub_ngrams)) {
        expected_.backward.push_back({{sequence.begin(), end}, {*end}});
      }
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
  std::size_t unknown = 0;
  std::size_t likeliest_taken = 0;
  for (int pass = 0; pass < 60; ++pass) {
    // The whole pool, or as much as fits into a narrow pass.
    const std::uint32_t rows = pass % 3 == 0 ? 2 * (options_.n - 1) + 1 : core.rows_max();
    const std::uint32_t depth = pass % 5 == 0 ? options_.n + 1 : 100;
    const Probes probes = core.ask(text, rows, depth);
    ASSERT_LE(probes.rows.node_count(), rows);
    const std::vector<Tokens> pool(core.pool().begin(), core.pool().end());
    Tokens likeliest;
    for (std::uint32_t i = 0; i < probes.asked_count; ++i) {
      Tokens row(kVocabulary);
      for (std::uint32_t t = 0; t < kVocabulary; ++t) row[t] = t;
      std::shuffle(row.begin(), row.end(), random);
      likeliest.insert(likeliest.end(), row.begin(), row.begin() + kLikeliest);
    }
    core.learn(text.back(), likeliest);

    std::size_t count = std::min<std::size_t>(options_.width, rows / (options_.n - 1));
    if (options_.staggered) count = std::min<std::size_t>(count, depth - (options_.n - 1) + 1);
    std::vector<Tokens> found;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t turn = (next + i) % pool.size();
      Tokens sequence = pool[turn];
      const Tokens answers = answer_to(probes, likeliest, sequence, static_cast<std::uint32_t>(i));
      const std::uint32_t chosen = core.pool()[turn].back();
      const auto first = std::ranges::find_if(
          answers, [&](std::uint32_t token) { return !expected_.knows(token); });
      const bool is_unknown = first != answers.end() && *first == chosen;
      ASSERT_TRUE(is_unknown || chosen == answers.front());
      unknown += is_unknown && chosen != answers.front();
      likeliest_taken += !is_unknown && first != answers.end();
      sequence.push_back(chosen);
      ASSERT_TRUE(
          std::equal(core.pool()[turn].begin(), core.pool()[turn].end(), sequence.begin() + 1));
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
  if (options_.forward && options_.threshold < 1.0) {
    EXPECT_GT(unknown, 0u);
    EXPECT_GT(likeliest_taken, 0u) << "the threshold keeps some likeliest tokens";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Parts, SpectraCoreTest,
    ::testing::Values(SpectraCoreOptions{}, SpectraCoreOptions{.threshold = 0.1},
                      SpectraCoreOptions{.n = 3, .width = 4, .guesses = 2, .threshold = 0.5},
                      SpectraCoreOptions{.threshold = 0.1, .forward = false},
                      SpectraCoreOptions{.threshold = 0.1, .backward = false},
                      SpectraCoreOptions{.threshold = 0.1, .sub_ngrams = false},
                      SpectraCoreOptions{.threshold = 0.5, .staggered = true}));

}  // namespace
}  // namespace edgedraft::server
