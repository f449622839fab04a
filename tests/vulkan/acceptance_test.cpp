#include <algorithm>
#include <array>
#include <filesystem>

#include "client/devices/fallback_drafter.h"
#include "client/engine/bundle_file.h"
#include "shared/model/convert/convert.h"
#include "tests/support/drafted_answer.h"
#include "tests/support/temporary_directory.h"
#include "tests/vulkan/hanging_device.h"
#include "tests/vulkan/vulkan_support.h"

// The shipped drafters, some with weights in every type, draft on a Vulkan device and on the CPU.
// Answers equal the target's, and equally many tokens are accepted.
namespace edgedraft::testing {
namespace {

constexpr TreeShape kTree{.breadth = 4, .depth = 4, .nodes = 20};
constexpr std::uint32_t kTokensMax = 24;
constexpr std::array kPrompts = {"tell Alice see you on Thursday",
                                 "Tell me a story about a dog who finds a ball."};
constexpr double kAcceptanceTolerance = 0.02;

struct Case {
  const char* bundle;
  DType type;
  bool rounds = false;  // activations to int8, if the device has int8 dot products
  DType kv_type = DType::f32;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.bundle << " " << traits(c.type).name;
}

// The CPU's target with the server half of a drafter, and tokenized prompts.
struct Setting {
  explicit Setting(const std::filesystem::path& path)
      : bundle(BundleFile::open(path, BundleUse::draft).value()),
        host(
            ModelHost::load(*cpu, {.model = std::filesystem::path(EDGEDRAFT_MODELS) / "target.gguf",
                                   .bundles = {path}})
                .value()) {
    const ChatTemplate chat = bundle.chat_template({}).value();
    for (const char* text : kPrompts) {
      const ChatMessage message{.role = "user", .content = text};
      prompts.push_back(bundle.encode_chat(chat, std::span(&message, 1)).value());
    }
  }

  // Null: plain decoding.
  DraftedAnswer answer(std::size_t prompt, Backend* device) {
    if (device == nullptr) {
      return drafted_answer(*host, {.prompt = prompts[prompt], .tokens_max = kTokensMax}).value();
    }
    return draft(prompt, *bundle.make_drafter(*device));
  }

  DraftedAnswer draft(std::size_t prompt, Drafter& drafter) {
    return drafted_answer(*host, {.prompt = prompts[prompt],
                                  .tap = host->drafters()[0].tap.get(),
                                  .drafter = &drafter,
                                  .tree = kTree,
                                  .tokens_max = kTokensMax})
        .value();
  }

  std::unique_ptr<Backend> cpu = make_cpu_backend({.threads = 1});
  BundleFile bundle;
  std::unique_ptr<ModelHost> host;
  std::vector<std::vector<std::uint32_t>> prompts;
};

class VulkanAcceptanceTest : public VulkanTest, public ::testing::WithParamInterface<Case> {};

TEST_P(VulkanAcceptanceTest, MatchesCpu) {
  const Case& c = GetParam();
  VulkanBackendOptions options;
  if (c.rounds) options.features = VulkanFeatures{.integer_dot = true};
  options.kv_type = c.kv_type;
  const auto vulkan = open_with({}, options);
  if (!vulkan && (c.rounds || c.kv_type != DType::f32)) GTEST_SKIP() << vulkan.error().message;
  ASSERT_TRUE(vulkan) << vulkan.error().message;

  const test::TemporaryDirectory folder;
  const std::filesystem::path path = folder / "drafter.gguf";
  const auto converted = convert_model(
      {.input = std::filesystem::path(EDGEDRAFT_MODELS) / (std::string(c.bundle) + ".gguf"),
       .output = path,
       .type = c.type});
  ASSERT_TRUE(converted) << converted.error().message;

  double cycles[2] = {};
  double tokens[2] = {};
  Setting setting(path);
  for (std::size_t prompt = 0; prompt < kPrompts.size(); ++prompt) {
    const DraftedAnswer plain = setting.answer(prompt, nullptr);
    Backend* const devices[] = {setting.cpu.get(), vulkan->get()};
    for (std::size_t i = 0; i < 2; ++i) {
      const DraftedAnswer answer = setting.answer(prompt, devices[i]);
      EXPECT_EQ(answer.tokens, plain.tokens) << devices[i]->name() << ", prompt " << prompt;
      cycles[i] += answer.stats.cycles;
      tokens[i] += answer.stats.cycle_tokens;
    }
  }
  ASSERT_GT(cycles[0], 0.0);
  const double on_cpu = tokens[0] / cycles[0];
  EXPECT_GT(on_cpu, 1.5) << "acceptance is too low for a meaningful comparison";
  EXPECT_NEAR(tokens[1] / cycles[1], on_cpu, kAcceptanceTolerance * on_cpu);
}

class HangingDeviceAcceptanceTest : public HangingDeviceTest {};

TEST_F(HangingDeviceAcceptanceTest, CpuDraftsRestOfAnswer) {
  constexpr int kWaitsBefore = 10;  // the drafter is loaded and the answer has begun
  Setting setting(std::filesystem::path(EDGEDRAFT_MODELS) / "moa-tli0.gguf");
  const DraftedAnswer plain = setting.answer(0, nullptr);
  const auto vulkan = open_hanging_device();
  ASSERT_TRUE(vulkan) << vulkan.error().message;
  int failures = 0;
  FallbackDrafter drafter({.first = [&] { return setting.bundle.make_drafter(**vulkan); },
                           .second = [&] { return setting.bundle.make_drafter(*setting.cpu); },
                           .on_failure = [&](const std::string&) { ++failures; }});
  hang.waits_before = kWaitsBefore;
  const DraftedAnswer answer = setting.draft(0, drafter);
  EXPECT_EQ(answer.tokens, plain.tokens);
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(hang.timeouts, 1);
  EXPECT_GT(answer.stats.cycle_tokens, answer.stats.cycles) << "nothing was drafted after the hang";
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* bundle : {"moa-tli0", "moa-tli1", "independent"}) {
    for (const DType type : {DType::f32, DType::f16, DType::q8_0, DType::q4_0}) {
      all.push_back({.bundle = bundle, .type = type});
    }
    for (const DType type : {DType::q8_0, DType::q4_0}) {
      all.push_back({.bundle = bundle, .type = type, .rounds = true});
    }
    all.push_back({.bundle = bundle, .type = DType::q8_0, .kv_type = DType::f16});
  }
  // The others keep their shipped type: a software device is slow.
  for (const char* bundle : {"eagle", "eagle-hass", "independent-2"}) {
    all.push_back({.bundle = bundle, .type = DType::q8_0});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Drafters, VulkanAcceptanceTest, ::testing::ValuesIn(cases()),
                         [](const auto& one) {
                           const Case& c = one.param;
                           std::string name = std::string(c.bundle) + "_" +
                                              std::string(traits(c.type).name) +
                                              (c.rounds ? "_int8" : "") +
                                              (c.kv_type == DType::f16 ? "_kv_f16" : "");
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace edgedraft::testing
