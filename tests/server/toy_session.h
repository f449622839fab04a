#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "server/passes/request.h"
#include "shared/base/random.h"
#include "shared/speculative/draft_tree.h"
#include "tests/support/toy_models.h"

namespace edgedraft::testing {
using namespace server;

// A toy target on the CPU, with a context of this length.
template <std::uint32_t Context, std::uint64_t Seed = 1>
class ToyTargetTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kContext = Context;
  // The smallest pool holds a full context and a draft tree.
  static constexpr std::uint32_t kLeastPages = (kContext + kMaskRowsMax) / KvPool::kPageSlots;

  ToyDecoder toy_{Seed};
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, kContext};
};

// Excludes padding and end tokens.
inline std::vector<std::uint32_t> random_tokens(Random& random, std::uint64_t count) {
  std::vector<std::uint32_t> tokens(count);
  for (auto& t : tokens) t = 3 + static_cast<std::uint32_t>(random.below(kToyVocabulary - 3));
  return tokens;
}

inline std::vector<std::uint32_t> joined(std::vector<std::uint32_t> first,
                                         std::span<const std::uint32_t> second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

inline DraftTree random_tree(Random& random, std::uint64_t nodes) {
  DraftTree tree;
  while (tree.node_count() < nodes) {
    tree.add(random_tokens(random, 1)[0],
             static_cast<std::uint32_t>(random.below(tree.row_count())));
  }
  return tree;
}

// Rows of `columns` values, filled by the test from the first one's position on.
class TapBy final : public Tap {
 public:
  using Fill = std::function<void(std::uint32_t first, std::span<float> rows)>;
  TapBy(std::uint32_t columns, Fill fill) : groups_{columns}, fill_(std::move(fill)) {}
  std::span<const std::uint32_t> scale_groups() const override { return groups_; }
  void read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
            std::span<float> rows) override {
    EXPECT_LE(first + count, cache.length());
    fill_(first, rows);
  }

 private:
  std::array<std::uint32_t, 1> groups_;
  Fill fill_;
};

// A client with the same id for its session and its connection.
inline Client client_of(std::uint64_t connection_id, std::shared_ptr<Replies> reply,
                        Tap* tap = nullptr) {
  wire::SessionId session{};
  for (std::size_t i = 0; i < 8; ++i) {
    session[i] = static_cast<std::byte>(connection_id >> (8 * i));
  }
  return {.connection_id = connection_id,
          .reply = std::move(reply),
          .session = session,
          .identity = "someone",
          .tap = tap};
}

}  // namespace edgedraft::testing
