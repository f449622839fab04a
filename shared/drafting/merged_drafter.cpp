#include "shared/drafting/merged_drafter.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"
#include "shared/speculative/tree_operations.h"

namespace edgedraft {
namespace {

class MergedWeights final : public DrafterWeights {
 public:
  explicit MergedWeights(std::vector<std::unique_ptr<DrafterWeights>> parts)
      : parts_(std::move(parts)) {}

  std::unique_ptr<Drafter> make_drafter() override {
    std::vector<std::unique_ptr<Drafter>> drafters;
    for (const auto& part : parts_) drafters.push_back(part->make_drafter());
    return std::make_unique<MergedDrafter>(std::move(drafters));
  }
  std::uint64_t drafter_bytes() const override {
    std::uint64_t bytes = 0;
    for (const auto& part : parts_) bytes += part->drafter_bytes();
    return bytes;
  }

 private:
  std::vector<std::unique_ptr<DrafterWeights>> parts_;
};

class MergedModel final : public DrafterModel {
 public:
  MergedModel(std::unique_ptr<DrafterModel> main, std::vector<std::unique_ptr<DrafterModel>> others)
      : main_(std::move(main)), others_(std::move(others)) {}

  const DrafterFacts& facts() const override { return main_->facts(); }
  std::unique_ptr<DrafterWeights> load(Backend& backend,
                                       std::uint32_t positions_max) const override {
    std::vector<std::unique_ptr<DrafterWeights>> parts;
    parts.push_back(main_->load(backend, positions_max));
    for (const auto& other : others_) {
      parts.push_back(other->load(backend, std::min(positions_max, other->facts().context_count)));
    }
    return std::make_unique<MergedWeights>(std::move(parts));
  }
  std::unique_ptr<Tap> make_tap(Backend& backend) const override {
    return main_->make_tap(backend);
  }

 private:
  std::unique_ptr<DrafterModel> main_;
  std::vector<std::unique_ptr<DrafterModel>> others_;
};

}  // namespace

std::unique_ptr<DrafterModel> merge_drafters(std::unique_ptr<DrafterModel> main,
                                             std::vector<std::unique_ptr<DrafterModel>> others) {
  EDGEDRAFT_CHECK(!others.empty());
  for (const auto& other : others) EDGEDRAFT_CHECK(other->facts().tap.empty());
  return std::make_unique<MergedModel>(std::move(main), std::move(others));
}

MergedDrafter::MergedDrafter(std::vector<std::unique_ptr<Drafter>> drafters) {
  EDGEDRAFT_CHECK(drafters.size() >= 2);
  for (std::unique_ptr<Drafter>& drafter : drafters) {
    EDGEDRAFT_CHECK(parts_.empty() || drafter->activation_cols() == 0);
    parts_.push_back({.drafter = std::move(drafter)});
  }
}

void MergedDrafter::append(std::span<const std::uint32_t> tokens) {
  for (Part& part : parts_) {
    part.drafter->append(tokens);
    if (part.growth) part.growth->reroot(tokens);
  }
}

void MergedDrafter::truncate(std::uint32_t count) {
  const bool same = count == token_count();
  for (Part& part : parts_) {
    part.drafter->truncate(count);
    if (!same) part.growth.reset();
  }
}

bool MergedDrafter::grow(TreeGrowth& growth, const GrowthBudget& budget) {
  // A growth without candidates restarts, and so do the parts.
  const bool fresh = growth.candidate_count() == 0;
  bool done = true;
  DraftTree tree;
  for (Part& part : parts_) {
    if (fresh || !part.growth || part.growth->order() != growth.order()) {
      part.growth.emplace(growth.shape(), growth.order());
    }
    part.growth->set_shape(growth.shape());
    part.growth->set_floor(growth.floor());
    part.growth->set_choice(growth.choice());
    const std::uint64_t expanded = part.growth->expanded_count();
    done = part.drafter->grow(*part.growth, budget) && done;
    growth.count_expanded(part.growth->expanded_count() - expanded);
    tree = merge(tree, part.growth->tree(), growth.shape().nodes);
  }
  growth.clear();
  growth.add(tree);
  if (done) growth.finish();
  return done;
}

}  // namespace edgedraft
