#include "client/devices/fallback_drafter.h"

#include <gtest/gtest.h>

#include "client/devices/shared_drafters.h"
#include "client/vulkan/vulkan_backend.h"
#include "tests/client/generation_rig.h"
#include "tests/support/skip.h"

namespace edgedraft::client {
namespace {

using testing::Answer;
using testing::DeviceFault;
using testing::GenerationRig;
using testing::kOperations;
using testing::LinkFault;
using testing::name_of;
using testing::Operation;
using testing::Tokens;
using testing::ToyDrafter;

// True if these drafters use the operation.
bool uses(Operation operation) {
  switch (operation) {
    case Operation::compact:
      return false;  // caches here are only truncated
    case Operation::wait:
      return false;  // used only between parts of longer texts
    case Operation::argmax:
    case Operation::gather_layers:
    case Operation::group_attention:
    case Operation::group_mean:
      return false;  // used only by the server, for its decisions and its tap
    case Operation::convolve:
    case Operation::delta_rule:
      return false;  // used only by hybrid models
    default:
      return true;
  }
}

class DeviceFaultTest : public ::testing::TestWithParam<ToyDrafter> {};

// Two turns, the second with another text after the first words, and a broken link in each. The
// device is lost in every operation in turn, including start-up.
TEST_P(DeviceFaultTest, AnswersEqualPlainDecodingAfterAnyDeviceLoss) {
  for (const float temperature : {0.0f, 0.8f}) {
    for (const Operation operation : kOperations) {
      std::uint32_t fired = 0;
      for (std::uint32_t n = 1;; n *= 2) {
        SCOPED_TRACE(name_of(operation) + " " + std::to_string(n));
        GenerationRig rig(
            {.drafter = GetParam(),
             .tree = TreeShape{.breadth = 3, .depth = 3, .nodes = 8},
             .tokens_max = 14,
             .sampling = {.temperature = temperature, .seed = 4},
             .faults = {{.request = 3, .kind = LinkFault::Kind::lost_answer, .wait_calls = 4}},
             .device_fault = DeviceFault{.operation = operation, .n = n}});
        for (const Tokens& prompt : {Tokens{5, 6, 7, 8}, Tokens{5, 6, 30, 31, 32}}) {
          const Answer answer = rig.answer(prompt);
          const Answer plain = rig.plain(prompt);
          ASSERT_EQ(answer.tokens, plain.tokens);
          ASSERT_EQ(answer.end, plain.end);
        }
        ASSERT_EQ(rig.device_failures().size(), rig.device_fault_fired() ? 1u : 0u);
        if (!rig.device_fault_fired()) break;
        EXPECT_NE(rig.device_failures()[0].find("device lost in " + name_of(operation)),
                  std::string::npos);
        ++fired;
      }
      EXPECT_EQ(fired > 0, uses(operation)) << name_of(operation);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Drafters, DeviceFaultTest,
                         ::testing::Values(ToyDrafter::moa_tli0, ToyDrafter::moa_tli1,
                                           ToyDrafter::moa_reduced, ToyDrafter::eagle,
                                           ToyDrafter::mtp, ToyDrafter::twin),
                         [](const auto& drafter) { return testing::name_of(drafter.param); });

// Likewise with a GPU whose memory is lost while the session continues.
TEST(VulkanFallbackTest, AnswersEqualPlainDecodingAfterAnyGpuLoss) {
  const auto make_vulkan = []() -> std::unique_ptr<Backend> {
    for (const VulkanDevice& device : list_vulkan_devices()) {
      auto backend = make_vulkan_backend({.device = device.index, .cache_directory = {}});
      if (backend) return std::move(*backend);
    }
    return nullptr;
  };
  if (!make_vulkan()) {
    EDGEDRAFT_SKIP_WITHOUT("vulkan", "install mesa-vulkan-drivers for a software device");
  }
  for (const ToyDrafter drafter : {ToyDrafter::moa_tli1, ToyDrafter::moa_reduced}) {
    for (const auto& [operation, n] :
         {std::pair{Operation::allocate, 5u}, std::pair{Operation::write, 5u},
          std::pair{Operation::top_k, 1u}, std::pair{Operation::top_k, 9u},
          std::pair{Operation::attention, 40u}, std::pair{Operation::read, 1'000'000u}}) {
      SCOPED_TRACE(name_of(operation) + " " + std::to_string(n));
      GenerationRig rig(
          {.drafter = drafter,
           .tokens_max = 14,
           .sampling = {.temperature = 0.8f, .seed = 4},
           .faults = {{.request = 3, .kind = LinkFault::Kind::lost_answer, .wait_calls = 4}},
           .device_fault = DeviceFault{.operation = operation, .n = n},
           .make_device = make_vulkan});
      for (const Tokens& prompt : {Tokens{5, 6, 7, 8}, Tokens{5, 6, 30, 31, 32}}) {
        EXPECT_EQ(rig.answer(prompt).tokens, rig.plain(prompt).tokens);
      }
      EXPECT_EQ(rig.device_failures().size(), n < 1'000'000 ? 1u : 0u);
    }
  }
}

// A drafter that records its inputs, on a device that fails on request.
class Recorder final : public Drafter {
 public:
  struct State {
    Tokens tokens;
    std::vector<std::optional<float>> rows;  // first value per position
    bool lost = false;
  };
  explicit Recorder(State& state) : state_(state) {}

  std::uint32_t token_count() const override {
    return static_cast<std::uint32_t>(state_.tokens.size());
  }
  void append(std::span<const std::uint32_t> tokens) override {
    look();
    state_.tokens.insert(state_.tokens.end(), tokens.begin(), tokens.end());
  }
  void truncate(std::uint32_t count) override {
    look();
    state_.tokens.resize(count);
    drop_activations(count);
  }
  std::uint32_t activation_cols() const override { return 2; }
  void add_activations(std::uint32_t first, std::span<const float> rows) override {
    look();
    for (std::size_t i = 0; i < rows.size() / 2; ++i) {
      if (state_.rows.size() <= first + i) state_.rows.resize(first + i + 1);
      ASSERT_FALSE(state_.rows[first + i]) << "row added twice";
      state_.rows[first + i] = rows[2 * i];
    }
  }
  void drop_activations(std::uint32_t first) override {
    look();
    if (first < state_.rows.size()) state_.rows.resize(first);
  }
  bool grow(TreeGrowth& growth, const GrowthBudget&) override {
    look();
    growth.add(state_.tokens.back(), 0, 0.0f);
    growth.finish();
    return true;
  }
  std::span<const float> next_logits() override {
    look();
    return {};
  }

 private:
  void look() const {
    if (state_.lost) throw DeviceError("lost");
  }
  State& state_;
};

class FallbackDrafterTest : public ::testing::Test {
 protected:
  FallbackDrafter::Maker maker(Recorder::State& state) {
    return [&state] {
      if (state.lost) throw DeviceError("no such device");
      return std::make_unique<Recorder>(state);
    };
  }
  FallbackDrafter fresh() {
    return FallbackDrafter({.first = maker(first_),
                            .second = maker(second_),
                            .on_failure = [this](const auto& why) { failures_.push_back(why); },
                            .meter = meter_});
  }

  Recorder::State first_;
  Recorder::State second_;
  std::vector<std::string> failures_;
  std::shared_ptr<MemoryMeter> meter_ = std::make_shared<MemoryMeter>();
};

TEST_F(FallbackDrafterTest, SecondDrafterReceivesStateOfFirst) {
  FallbackDrafter drafter = fresh();
  drafter.append(Tokens{1, 2, 3, 4, 5, 6, 7});
  drafter.add_activations(4, std::vector<float>{40, 0, 50, 0});
  drafter.add_activations(0, std::vector<float>{10, 0, 20, 0});
  drafter.truncate(6);
  drafter.drop_activations(5);
  first_.lost = true;
  EXPECT_EQ(drafter.draft({}).token(1), 6u);
  EXPECT_EQ(second_.tokens, first_.tokens);
  EXPECT_EQ(second_.rows, first_.rows);
  EXPECT_EQ(second_.rows,
            (std::vector<std::optional<float>>{10, 20, std::nullopt, std::nullopt, 40}));
  EXPECT_EQ(failures_, std::vector<std::string>{"lost"});
}

TEST_F(FallbackDrafterTest, AppliesInterruptedChangeOnce) {
  {
    FallbackDrafter drafter = fresh();
    drafter.append(Tokens{1, 2});
    first_.lost = true;
    drafter.add_activations(1, std::vector<float>{7, 0});
    EXPECT_EQ(second_.rows, (std::vector<std::optional<float>>{std::nullopt, 7}));
    EXPECT_EQ(second_.tokens, (Tokens{1, 2}));
  }
  first_ = second_ = {};
  FallbackDrafter drafter = fresh();
  drafter.append(Tokens{1, 2, 3});
  first_.lost = true;
  drafter.truncate(1);
  EXPECT_EQ(second_.tokens, Tokens{1});
  drafter.append(Tokens{9});
  EXPECT_EQ(second_.tokens, (Tokens{1, 9}));
  EXPECT_EQ(drafter.token_count(), 2u);
}

TEST_F(FallbackDrafterTest, ReplacesDeviceThatFailsToStart) {
  first_.lost = true;
  FallbackDrafter drafter = fresh();
  EXPECT_EQ(failures_, std::vector<std::string>{"no such device"});
  drafter.append(Tokens{3});
  EXPECT_EQ(second_.tokens, Tokens{3});
}

TEST_F(FallbackDrafterTest, FailsIfBothDevicesAreLost) {
  FallbackDrafter drafter = fresh();
  drafter.append(Tokens{1});
  first_.lost = second_.lost = true;
  EXPECT_THROW(drafter.draft({}), DeviceError);
  EXPECT_THROW(drafter.append(Tokens{2}), DeviceError);
  EXPECT_THROW(drafter.token_count(), DeviceError);

  first_ = second_ = {};
  FallbackDrafter other = fresh();
  other.append(Tokens{1});
  first_.lost = true;
  other.draft({});
  second_.lost = true;
  EXPECT_THROW(other.draft({}), DeviceError);
}

// Weights on a device that is lost at the first draft.
struct LostWeights final : DrafterWeights {
  std::unique_ptr<Drafter> make_drafter() override { throw DeviceError("lost"); }
  std::uint64_t drafter_bytes() const override { return 0; }
};
struct RecordedWeights final : DrafterWeights {
  explicit RecordedWeights(Recorder::State& of) : state(of) {}
  std::unique_ptr<Drafter> make_drafter() override { return std::make_unique<Recorder>(state); }
  std::uint64_t drafter_bytes() const override { return 0; }
  Recorder::State& state;
};

TEST(SharedDraftersTest, FailsEveryConversationWhileNoDeviceDrafts) {
  bool second_has_room = false;
  const auto load = [] {
    return LoadedDrafter{.backend = make_cpu_backend({.threads = 1}),
                         .weights = std::make_unique<LostWeights>()};
  };
  Recorder::State state;
  SharedDrafters drafters({.first = load, .second = [&] {
                             if (!second_has_room) throw DeviceError("out of memory");
                             return LoadedDrafter{
                                 .backend = make_cpu_backend({.threads = 1}),
                                 .weights = std::make_unique<RecordedWeights>(state)};
                           }});
  EXPECT_THROW(drafters.make_drafter(), DeviceError);
  EXPECT_THROW(drafters.make_drafter(), DeviceError);
  second_has_room = true;
  const auto drafter = drafters.make_drafter();
  drafter->append(Tokens{4});
  EXPECT_EQ(state.tokens, Tokens{4});
}

// The record is bounded by the context, and empty once another device drafts.
TEST_F(FallbackDrafterTest, BoundsRecordByContextLength) {
  constexpr std::uint32_t kContext = 50;
  FallbackDrafter drafter = fresh();
  for (int turn = 0; turn < 200; ++turn) {
    drafter.truncate(0);
    drafter.append(Tokens(kContext, 7));
    drafter.add_activations(10, std::vector<float>(2 * (kContext - 10)));
    drafter.add_activations(0, std::vector<float>(2 * 10));
    drafter.drop_activations(kContext / 2);
    drafter.add_activations(kContext / 2, std::vector<float>(kContext));
  }
  EXPECT_EQ(meter_->peak(), FallbackDrafter::kept_bytes_max(2, kContext));
  first_.lost = true;
  drafter.draft({});
  drafter.append(Tokens{1});
  drafter.add_activations(kContext, std::vector<float>{1, 2});
  EXPECT_EQ(meter_->held(), 0u);
}

}  // namespace
}  // namespace edgedraft::client
