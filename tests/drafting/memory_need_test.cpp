// The memory need predicted before loading equals the memory used, however long it drafts.
#include "shared/drafting/memory_need.h"
#include "shared/drafting/dflash/dflash_kind.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/random.h"
#include "shared/drafting/eagle/eagle_kind.h"
#include "shared/drafting/kinds.h"
#include "shared/drafting/medusa/medusa_kind.h"
#include "shared/drafting/merged_drafter.h"
#include "shared/drafting/moa/moa_kind.h"
#include "shared/drafting/multistream/multistream_kind.h"
#include "shared/drafting/ngram/ngram_drafter.h"
#include "shared/runtime/layer.h"
#include "shared/runtime/planning_backend.h"
#include "tests/support/block_drafter.h"
#include "tests/support/random_tokens.h"
#include "tests/support/toy_feature_drafters.h"
#include "tests/support/toy_models.h"

namespace edgedraft {
namespace {

using testing::HeadOutputs;
using testing::ToyDecoder;
using testing::ToyEagle;
using testing::ToyMedusa;
using testing::ToyMoa;
using testing::ToyMultistream;

constexpr TreeShape kDefaultShape{};
constexpr std::uint32_t kThreads = 2;

// A drafter's model, and the file or toy that it came from.
struct Model {
  std::shared_ptr<const void> keeps;
  std::unique_ptr<DrafterModel> model;
};

struct Case {
  std::string name;
  std::function<Model()> make;
  std::uint32_t positions = std::numeric_limits<std::uint32_t>::max();
};

Model from_file(const std::string& name) {
  auto file = std::make_shared<GgufFile>(GgufFile::open(EDGEDRAFT_MODELS "/" + name).value());
  auto model = drafter_kind_of(*file).value()->read(*file).value();
  return {.keeps = file, .model = std::move(model)};
}

Model merged_with_table(const std::string& name) {
  auto file = std::make_shared<GgufFile>(GgufFile::open(EDGEDRAFT_MODELS "/" + name).value());
  std::vector<std::unique_ptr<DrafterModel>> others;
  others.push_back(kNgramKind.read(*file).value());
  return {.keeps = file,
          .model = merge_drafters(drafter_kind_of(*file).value()->read(*file).value(),
                                  std::move(others))};
}

Model of_blocks(const std::string& name) {
  auto made = std::make_shared<testing::BlockDrafter>(name);
  return {.keeps = made, .model = make_dflash_model(made->model())};
}

template <class Toy, class Make>
Model toy(const Make& make_model, auto... parts) {
  static const ToyDecoder target(6);
  auto made = std::make_shared<Toy>(target, 3, parts...);
  return {.keeps = made, .model = make_model({.config = made->config, .tensors = made->tensors})};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"moa_tli0", [] { return from_file("moa-tli0.gguf"); }},
      {"moa_tli1", [] { return from_file("moa-tli1.gguf"); }},
      {"independent", [] { return from_file("independent.gguf"); }},
      {"half_the_context", [] { return from_file("moa-tli1.gguf"); }, 500},
      {"merged", [] { return merged_with_table("moa-tli0.gguf"); }},
      {"toy_moa", [] { return toy<ToyMoa>(make_moa_model, 3); }},
      {"toy_eagle", [] { return toy<ToyEagle>(make_eagle_model); }},
      {"toy_medusa", [] { return toy<ToyMedusa>(make_medusa_model, HeadOutputs::own); }},
      {"toy_multistream", [] { return toy<ToyMultistream>(make_multistream_model); }},
      {"dflash", [] { return of_blocks("dflash-swa"); }},
  };
  return all;
}

// A conversation that fills the drafter's context and continues. It has a long prompt with
// activations newest first, and trees every few tokens, some continued from another root. Text is
// written offline and taken back.
void hold_long_conversation(Drafter& drafter, std::uint32_t positions, std::uint32_t vocabulary) {
  Random random(1);
  const auto append = [&](std::uint32_t count) {
    drafter.append(testing::random_tokens(random, count, vocabulary));
  };
  std::uint32_t known = 0;  // positions with activations
  const auto catch_up = [&] {
    const std::uint32_t count = drafter.token_count() - 1 - known;
    drafter.add_activations(known, std::vector<float>(count * drafter.activation_cols(), 0.1f));
    known += count;
  };
  append(std::min(300u, positions / 2));
  catch_up();
  // Grown like by draft-ahead: 240 rows, which run again for another root.
  TreeGrowth wide({.breadth = 8, .depth = 32, .nodes = 255}, GrowthOrder::best_first);
  drafter.grow(wide, {.rows = 240});
  wide.reroot({});
  drafter.grow(wide, {.rows = 8});
  const std::uint32_t step = std::min(37u, positions / 8);
  while (drafter.token_count() < positions + 60) {
    (void)drafter.draft(kDefaultShape);
    const std::uint32_t before = drafter.token_count();
    append(step / 2);
    (void)drafter.next_logits();
    drafter.truncate(before);
    append(step);
    catch_up();
  }
}

class MemoryNeedTest : public ::testing::TestWithParam<Case> {
 protected:
  MemoryNeedTest() : made_(GetParam().make()) {
    positions_ = std::min(GetParam().positions, model().facts().context_count);
  }
  const DrafterModel& model() const { return *made_.model; }
  MemoryNeed plan() const {
    return memory_need(model(), *plan_cpu_backend({.threads = kThreads}), positions_,
                       kDefaultShape);
  }
  static std::unique_ptr<Backend> backend(std::uint64_t limit) {
    return make_cpu_backend({.threads = kThreads, .meter = std::make_shared<MemoryMeter>(limit)});
  }

  Model made_;
  std::uint32_t positions_;
};

TEST_P(MemoryNeedTest, BoundsMemoryOfLongConversations) {
  const MemoryNeed need = plan();
  const auto cpu = backend(need.total(2));
  const auto weights = model().load(*cpu, positions_);
  EXPECT_EQ(cpu->meter()->held(MemoryMeter::Use::weights), need.weights);
  for (const std::uint32_t conversations : {1u, 2u}) {
    std::vector<std::unique_ptr<Drafter>> drafters;
    for (std::uint32_t i = 0; i < conversations; ++i) {
      drafters.push_back(weights->make_drafter());
      hold_long_conversation(*drafters.back(), positions_, model().facts().vocabulary_count);
    }
    EXPECT_LE(cpu->meter()->held(), need.total(conversations));
    EXPECT_GE(static_cast<double>(cpu->meter()->held()),
              0.97 * static_cast<double>(need.total(conversations)));
  }
  EXPECT_LE(cpu->meter()->peak(), need.total(2));
}

// The plan is made by loading; a real backend counts the same way.
TEST_P(MemoryNeedTest, PlanMatchesRealBackend) {
  const MemoryNeed planned = plan();
  const MemoryNeed taken =
      memory_need(model(), *backend(MemoryMeter::kUnlimited), positions_, kDefaultShape);
  EXPECT_EQ(taken.weights, planned.weights);
  EXPECT_EQ(taken.cache, planned.cache);
  EXPECT_LE(taken.scratch, planned.scratch);
}

TEST_P(MemoryNeedTest, OneByteLessFails) {
  const MemoryNeed taken =
      memory_need(model(), *backend(MemoryMeter::kUnlimited), positions_, kDefaultShape);
  EXPECT_NO_THROW(memory_need(model(), *backend(taken.total(2)), positions_, kDefaultShape));
  EXPECT_THROW(memory_need(model(), *backend(taken.total(2) - 1), positions_, kDefaultShape),
               DeviceError);
}

INSTANTIATE_TEST_SUITE_P(Drafters, MemoryNeedTest, ::testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name; });

// A file may declare any context length.
TEST(RopeTableTest, IsPlannedWithoutMemoryAndLimitedBeforeAllocation) {
  constexpr std::uint32_t kHeadDim = 64;
  constexpr std::uint32_t kPositions = 1u << 30;
  const auto meter = std::make_shared<MemoryMeter>(MemoryMeter::kUnlimited);
  const auto plan = plan_cpu_backend({.threads = 1, .meter = meter});
  const OwnedMatrix planned = make_rope_table(*plan, {}, kHeadDim, kPositions);
  EXPECT_GE(meter->held(), std::uint64_t{kPositions} * kHeadDim * sizeof(float));

  const auto limited =
      make_cpu_backend({.threads = 1, .meter = std::make_shared<MemoryMeter>(1u << 20)});
  EXPECT_THROW(make_rope_table(*limited, {}, kHeadDim, kPositions), DeviceError);
}

TEST(MemoryMeterTest, CountsHeldMemoryAndEnforcesLimit) {
  const auto meter = std::make_shared<MemoryMeter>(100);
  HeldMemory first(meter, 60);
  EXPECT_THROW(HeldMemory(meter, 41), DeviceError);
  EXPECT_EQ(meter->held(), 60u);
  {
    const HeldMemory second(meter, 40, MemoryMeter::Use::weights);
    EXPECT_EQ(meter->held(), 100u);
    EXPECT_EQ(meter->held(MemoryMeter::Use::weights), 40u);
  }
  HeldMemory moved = std::move(first);
  EXPECT_EQ(meter->held(), 60u);
  moved = {};
  EXPECT_EQ(meter->held(), 0u);
  EXPECT_EQ(meter->peak(), 100u);
}

}  // namespace
}  // namespace edgedraft
