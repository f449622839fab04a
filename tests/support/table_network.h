#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "shared/base/random.h"
#include "shared/drafting/draft_network.h"
#include "shared/runtime/layer.h"
#include "tests/support/reference_backend.h"

namespace edgedraft::testing {

// A drafter's network whose logits are any function of the tokens up to the row: a table for tree
// growth, an adversary for verification.
class TableNetwork final : public DraftNetwork {
 public:
  using Logits = std::function<std::vector<float>(std::span<const std::uint32_t> tokens)>;

  TableNetwork(std::uint32_t vocabulary_count, Logits logits)
      : backend_(make_reference_backend()),
        vocabulary_count_(vocabulary_count),
        function_(std::move(logits)),
        memory_(*backend_, kMaskRowsMax, vocabulary_count) {}

  std::uint32_t vocabulary_count() const override { return vocabulary_count_; }
  std::uint32_t committed_count() const override {
    return static_cast<std::uint32_t>(committed_.size());
  }
  std::uint32_t position_count_max() const override { return 1u << 20; }

  void commit(std::span<const std::uint32_t> tokens) override {
    paths_.clear();
    committed_.insert(committed_.end(), tokens.begin(), tokens.end());
    leave_logits({committed_});
  }
  void truncate(std::uint32_t count) override {
    paths_.clear();
    committed_.resize(count);
  }
  void expand(std::span<const GrowthNode> nodes, Leave leave = Leave::logits) override {
    std::vector<std::vector<std::uint32_t>> level;
    for (const GrowthNode& node : nodes) {
      std::vector<std::uint32_t> path = committed_;
      for (std::uint32_t row = 0; row < paths_.size(); ++row) {
        if (node.ancestors.test(row)) path.push_back(paths_[row].back());
      }
      path.push_back(node.token);
      level.push_back(std::move(path));
    }
    paths_.insert(paths_.end(), level.begin(), level.end());
    if (leave == Leave::logits) leave_logits(level);
  }
  Matrix logits() const override { return logits_; }
  Backend& backend() override { return *backend_; }

 private:
  void leave_logits(const std::vector<std::vector<std::uint32_t>>& paths) {
    logits_ = memory_.rows(static_cast<std::uint32_t>(paths.size()));
    std::vector<float> rows;
    for (const auto& path : paths) {
      const std::vector<float> row = function_(path);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    backend_->write(logits_, rows);
  }

  std::unique_ptr<Backend> backend_;
  std::uint32_t vocabulary_count_;
  Logits function_;
  OwnedMatrix memory_;
  Matrix logits_;
  std::vector<std::uint32_t> committed_;
  std::vector<std::vector<std::uint32_t>> paths_;  // paths of draft rows with committed tokens
};

// Logits that look random and depend on every token before.
inline TableNetwork::Logits hashed_logits(std::uint32_t vocabulary_count, std::uint64_t seed) {
  return [=](std::span<const std::uint32_t> tokens) {
    std::uint64_t hash = seed;
    for (const std::uint32_t token : tokens) hash = mix64(hash + token + 1);
    Random random(hash);
    std::vector<float> row(vocabulary_count);
    for (float& x : row) x = static_cast<float>(4.0 * random.uniform());
    return row;
  };
}

}  // namespace edgedraft::testing
