#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/base/random.h"
#include "tests/drafting/whole_levels.h"
#include "tests/runtime/op_test.h"
#include "tests/support/made_up_rows.h"
#include "tests/support/matrix_reading.h"
#include "tests/support/toy_models.h"

namespace edgedraft::testing {

// A network that reads rows of its target, with made-up rows, and what holds for all of them.
template <class Network>
class NetworkTest : public OpTest {
 protected:
  using Tokens = std::vector<std::uint32_t>;

  virtual Network fresh() = 0;
  static void extend(Network& network, std::uint32_t first, std::uint32_t count) {
    network.extend_memory(first, made_up_rows(network.activation_cols(), first, count));
  }
  static Tokens some_tokens(std::uint32_t count) {
    Tokens tokens;
    for (std::uint32_t i = 0; i < count; ++i) tokens.push_back(3 + (i * i + 5 * i) % 60);
    return tokens;
  }

  // `rows`: known rows of the target, at most four.
  void expect_drafts_have_the_bits_of_commits(std::uint32_t rows) {
    Network drafted = fresh();
    extend(drafted, 0, rows);
    drafted.commit(Tokens{5, 6, 7, 8});
    const auto along_tree = expand_chain(drafted, Tokens{9, 10, 11});
    Network committed = fresh();
    extend(committed, 0, rows);
    committed.commit(Tokens{5, 6, 7, 8, 9, 10, 11});
    EXPECT_EQ(along_tree, read_logits(committed)) << rows;
  }

  void expect_levels_have_the_bits_of_nodes(std::uint32_t rows) {
    Network together = fresh();
    Network apart = fresh();
    for (Network* network : {&together, &apart}) {
      extend(*network, 0, rows);
      network->commit(some_tokens(rows + 1));
    }
    expect_levels_have_the_bits_of_their_nodes(together, apart);
  }

  void expect_truncation_leaves_no_trace() {
    for (const std::uint32_t kept : {0u, 1u, 4u}) {
      Network network = fresh();
      extend(network, 0, 9);
      network.commit(some_tokens(12));
      network.truncate(kept);
      network.truncate_memory(kept);
      EXPECT_EQ(network.committed_count(), kept);
      Network straight = fresh();
      extend(straight, 0, kept);
      if (kept > 0) straight.commit(some_tokens(kept));
      for (Network* each : {&network, &straight}) {
        extend(*each, kept, 2);
        each->commit(Tokens{30, 31, 32});
      }
      EXPECT_EQ(read_logits(network), read_logits(straight)) << kept;
    }
  }

  // A full context of tokens and rows, and a text without any row.
  void expect_context_can_be_filled() {
    Network network = fresh();
    const std::uint32_t positions = network.position_count_max();
    extend(network, 0, positions + 20);
    network.commit(some_tokens(positions));
    EXPECT_EQ(network.committed_count(), positions);
    Network pieces = fresh();
    Network at_once = fresh();
    const Tokens text = some_tokens(positions - 10);
    pieces.commit(std::span(text).first(positions - 70));
    pieces.commit(std::span(text).subspan(positions - 70));
    at_once.commit(text);
    EXPECT_EQ(read_logits(pieces), read_logits(at_once));
  }

  // Tokens, rows, drafts and corrections in any order. `unread`: newest rows never read.
  void expect_history_does_not_matter(int steps, std::uint32_t unread) {
    Network network = fresh();
    Random random(17);
    const auto below = [&](std::uint64_t count) {
      return static_cast<std::uint32_t>(random.below(count));
    };
    Tokens tokens;
    std::uint32_t known = 0;  // rows of the first so many positions
    for (int step = 0; step < steps; ++step) {
      if (tokens.size() > 40 || (tokens.size() > 1 && below(3) == 0)) {
        tokens.resize(1 + below(tokens.size() - 1));
        const auto count = static_cast<std::uint32_t>(tokens.size());
        network.truncate(count);
        known = std::min(known, count - below(2));
        network.truncate_memory(known);
      }
      Tokens more(1 + below(4));
      for (auto& token : more) token = below(kToyVocabulary);
      tokens.insert(tokens.end(), more.begin(), more.end());
      const auto count = static_cast<std::uint32_t>(tokens.size()) - unread;
      if (const std::uint32_t end = count - std::min(count, below(4)); end > known) {
        extend(network, known, end - known);
        known = end;
      }
      network.commit(more);
      const auto logits = read_logits(network);
      if (below(2) == 0) expand_chain(network, Tokens{below(60), below(60)});
      Network other = fresh();
      extend(other, 0, known);
      other.commit(tokens);
      ASSERT_EQ(logits, read_logits(other)) << "step " << step;
    }
  }
};

}  // namespace edgedraft::testing
