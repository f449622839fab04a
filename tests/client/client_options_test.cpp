#include "client/commands/client_options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <iterator>
#include <limits>
#include <sstream>

#include "client/commands/commands.h"
#include "shared/drafting/kinds.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
const std::string kPin = "sha256:" + std::string(64, 'a');

Result<ClientSettings> parse(std::vector<std::string> arguments) {
  CLI::App app;
  RunOptions run;
  run.answer.config.drafter.bundles = {"moa.gguf"};
  declare_run(app, run);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& e) {
    return Error{Errc::usage, e.what()};
  }
  return check_answer_options(run.answer);
}

// Options as in a shell, without quotation marks.
Result<ClientSettings> parse_line(const std::string& line) {
  std::istringstream words(line);
  return parse({std::istream_iterator<std::string>(words), {}});
}

TEST(ClientOptionsTest, DefaultsMatchDocumentation) {
  const auto config = parse({}).value();
  EXPECT_EQ(config.host, "127.0.0.1");
  EXPECT_EQ(config.port, "7420");
  EXPECT_EQ(config.generation.tree, (TreeShape{.breadth = 8, .depth = 6, .nodes = 62}));
  EXPECT_EQ(config.generation.tokens_max, 256u);
  EXPECT_EQ(config.generation.deadline, 3000ms);
  EXPECT_EQ(config.generation.resync, wire::ResyncPolicy::check);
  EXPECT_EQ(config.generation.resync_wait, 0ms);
  EXPECT_TRUE(config.generation.sampling.greedy());
  EXPECT_EQ(config.generation.sampling.seed, 0u);
}

TEST(ClientOptionsTest, MemoryLimitsTakeSizesAndRequireDrafter) {
  EXPECT_EQ(parse({})->memory_limit, MemoryMeter::kUnlimited);
  for (const auto& [text, bytes] :
       {std::pair{"512M", std::uint64_t{512} << 20}, std::pair{"2G", std::uint64_t{2} << 30},
        std::pair{"3gb", std::uint64_t{3} << 30}, std::pair{"1000", std::uint64_t{1000}}}) {
    EXPECT_EQ(parse({"--memory", text})->memory_limit, bytes) << text;
  }
  for (const char* wrong : {"much", "-5", "-5MB", "1.5GB"}) {
    const auto config = parse({"--memory", wrong});
    ASSERT_FALSE(config) << wrong;
    EXPECT_TRUE(contains(config.error().message, "give a size"));
  }
  EXPECT_EQ(parse({"--ctx", "2048"})->drafted_positions, 2048u);
  EXPECT_FALSE(parse({"--ctx", "0"}));
  EXPECT_FALSE(parse({"--plain", "--memory", "1G"}));
  EXPECT_FALSE(parse({"--plain", "--ctx", "100"}));
  EXPECT_TRUE(parse({"--plain", "--memory", "1G", "--offline-bundle", "moa.gguf"}));
}

TEST(ClientOptionsTest, AcceptsValidOptions) {
  const auto config = parse_line("--server [::1]:9 --pin " + kPin +
                                 " --tree 3,4,5 --max-tokens 7 --temperature 0.8 --top-k 40 "
                                 "--top-p 0.9 --min-p 0.05 --seed 18446744073709551615 "
                                 "--deadline-ms 500 --resync keep --resync-wait-ms 9 --device cpu "
                                 "--threads 2 --kv-type f16 --raw --json")
                          .value();
  EXPECT_EQ(config.host, "::1");
  EXPECT_EQ(config.port, "9");
  EXPECT_EQ(config.trust.tls.pin, kPin);
  EXPECT_EQ(config.generation.tree, (TreeShape{.breadth = 3, .depth = 4, .nodes = 5}));
  EXPECT_EQ(config.generation.tokens_max, 7u);
  EXPECT_EQ(config.generation.sampling, (SamplingParams{.temperature = 0.8f,
                                                        .top_k = 40,
                                                        .top_p = 0.9f,
                                                        .min_p = 0.05f,
                                                        .seed = 18446744073709551615u}));
  EXPECT_EQ(config.generation.deadline, 500ms);
  EXPECT_EQ(config.generation.resync, wire::ResyncPolicy::keep);
  EXPECT_EQ(config.generation.resync_wait, 9ms);
  EXPECT_EQ(config.thread_count, 2u);
  EXPECT_EQ(config.kv_type, DType::f16);
  EXPECT_TRUE(config.raw);
  EXPECT_TRUE(config.json);
}

TEST(ClientOptionsTest, OnlyRunHasRaw) {
  CLI::App app;
  ChatOptions chat;
  declare_chat(app, chat);
  EXPECT_EQ(app.get_option_no_throw("--raw"), nullptr);
}

TEST(ClientOptionsTest, ParsesTreesChainsAndPlain) {
  EXPECT_EQ(parse({"--tree", "4"}).value().generation.tree, chain_shape(4));
  EXPECT_EQ(parse({"--plain"}).value().generation.tree, std::nullopt);
  EXPECT_EQ(parse({"--plain", "--tree", "4"}).value().generation.tree, std::nullopt);
  EXPECT_EQ(parse({"--tree", "1,1,1"}).value().generation.tree, chain_shape(1));
  EXPECT_EQ(parse({"--tree", "32,8,255"}).value().generation.tree,
            (TreeShape{.breadth = 32, .depth = 8, .nodes = 255}));
  EXPECT_EQ(parse({"--tree", "8,32,62"}).value().generation.tree,
            (TreeShape{.breadth = 8, .depth = 32, .nodes = 62}));
}

TEST(ClientOptionsTest, ParsesCpuVulkanAndAutomaticDevices) {
  using Kind = DeviceRequest::Kind;
  EXPECT_EQ(parse({}).value().device.kind, Kind::automatic);
  EXPECT_EQ(parse({"--device", "auto"}).value().device.kind, Kind::automatic);
  EXPECT_EQ(parse({"--device", "cpu"}).value().device.kind, Kind::cpu);
  EXPECT_EQ(parse({"--device", "vulkan"}).value().device.kind, Kind::vulkan);
  EXPECT_EQ(parse({"--device", "vulkan"}).value().device.index, std::nullopt);
  EXPECT_EQ(parse({"--device", "vulkan:12"}).value().device.kind, Kind::vulkan);
  EXPECT_EQ(parse({"--device", "vulkan:12"}).value().device.index, 12u);
}

TEST(ClientOptionsTest, MistakeIsUsageErrorWithOptionAndRemedy) {
  const auto expect_refused = [](const std::vector<std::string>& arguments,
                                 const std::string& named) {
    const auto config = parse(arguments);
    ASSERT_TRUE(fails_with(config, Errc::usage, named)) << arguments.back();
    EXPECT_GT(config.error().message.size(), named.size() + 20)
        << "no remedy: " << config.error().message;
  };
  // Values, each named with its option.
  const std::pair<std::string, std::vector<std::string>> values[] = {
      {"--tree",
       {"0,6,62", "8,0,62", "8,6,0", "8,6,256", "33,6,62", "32,9,62", "8,6,62,1", "8,6,", "8,-6,62",
        "8 6 62", "x", "4294967297,6,62", "", "0", "-3", "33", "8,6"}},
      {"--max-tokens", {"0", "-1", "1048577"}},
      {"--temperature", {"-1", "101", "nan", "inf"}},
      {"--top-k", {"-1"}},
      {"--top-p", {"0", "1.1", "nan"}},
      {"--min-p", {"-0.1", "2"}},
      {"--deadline-ms", {"0"}},
      {"--resync-wait-ms", {"-1"}},
      {"--threads", {"-1"}},
      {"--resync", {"maybe"}},
      {"--device", {"vulkan:", "vulkan:x", "vulkan:-1", "vulkan:1 ", ""}},
      {"--kv-type", {"q8_0"}},
      {"--log-level", {"loud"}},
      {"--server", {"localhost", ":7420", "host:0", "host:70000", "host:7x", "::1:7420"}},
      {"--pin", {"md5:12", "sha256:12", "sha256:" + std::string(64, 'g')}}};
  for (const auto& [option, wrong] : values) {
    for (const std::string& value : wrong) expect_refused({option, value}, option);
  }
  expect_refused({"--plain", "--tree", "0,6,62"}, "--tree");
  expect_refused({"--private-detect", "refuse"}, "--private-detect refuse");
  expect_refused({"--device", "tpu"}, "edgedraft devices");
  expect_refused({"--pin", kPin, "--ca", "ca.pem"}, "--ca");
  expect_refused({"--seed", "abc"}, "--seed: 'abc': give a number");
  expect_refused({"--seed", "-1"}, "--seed: '-1': give a number");
  expect_refused({"--drafter", "nobody"}, "--drafter nobody: expected a drafter");
  expect_refused({"--drafter-merge", "pld,nobody"}, "--drafter-merge nobody: expected drafters");
  expect_refused({"--drafter-merge", "pld,none"}, "only auto or none");
  expect_refused({"--tls-cert", "own.pem"}, "--tls-key");
  expect_refused({"--tls-key", "own.key"}, "--tls-cert");
}

// The remedy that an error names must work.
TEST(ClientOptionsTest, OnlyWeightlessDraftersReplaceOrMerge) {
  for (const DrafterKind* kind : drafter_kinds()) {
    const std::string name(kind->name);
    const bool has_weights = kind->is_bundle != nullptr;
    for (const std::string option : {"--drafter", "--drafter-merge"}) {
      const auto config = parse({option, name});
      EXPECT_EQ(config.has_value(), !has_weights) << option << ' ' << name;
      const auto refused = parse({option, "nobody"});
      ASSERT_FALSE(refused);
      const std::string& message = refused.error().message;
      EXPECT_EQ(message.find(' ' + name) == std::string::npos, has_weights) << message;
    }
  }
}

TEST(ClientOptionsTest, RefusesToReadStandardInputTwice) {
  const auto refusal = [](const OptionValues& o, const std::string& reader = {}) {
    const auto checked = check_standard_input(o, reader);
    return checked ? std::string() : checked.error().message;
  };
  const std::string prompt = "for the prompt (-f -)";
  EXPECT_EQ(refusal({}, prompt), "");
  EXPECT_EQ(refusal({.config = {.trust = {.token_file = "-"}}}), "");
  EXPECT_EQ(refusal({.config = {.trust = {.token_file = "token"}}, .private_names = "-"}), "");
  EXPECT_EQ(refusal({.config = {.trust = {.token_file = "-"}}}, prompt),
            "--token-file -: standard input is already used for the prompt (-f -); name a file");
  EXPECT_TRUE(contains(refusal({.config = {.trust = {.token_file = "-"}}, .private_names = "-"}),
                       "for --token-file -"));
  RunOptions run;
  run.file = "-";
  run.answer.config.trust.token_file = "-";
  EXPECT_TRUE(fails_with(run_once(run), Errc::usage));
}

TEST(ClientOptionsTest, RequiresBundle) {
  EXPECT_TRUE(fails_with(check_answer_options({}), Errc::usage, "--bundle"));
}

TEST(ClientOptionsTest, MergesTablesIfFasterByDefault) {
  const auto merge = [](std::vector<std::string> arguments) { return parse(arguments)->drafter; };
  EXPECT_TRUE(merge({}).merges_if_faster);
  EXPECT_TRUE(merge({}).merge.empty());
  EXPECT_FALSE(merge({"--drafter-merge", "none"}).merges_if_faster);
  EXPECT_TRUE(merge({"--drafter-merge", "none"}).merge.empty());
  EXPECT_FALSE(merge({"--drafter-merge", "pld,anpd"}).merges_if_faster);
  EXPECT_EQ(merge({"--drafter-merge", "pld,anpd"}).merge,
            (std::vector<std::string>{"pld", "anpd"}));
}

TEST(ClientOptionsTest, AcceptsSeveralBundlesForDrafting) {
  const auto config = parse({"--bundle", "a.gguf", "--bundle", "b.gguf"}).value();
  EXPECT_EQ(config.drafter.bundles.size(), 2u);
  for (const auto& alone : {std::vector<std::string>{"--plain"}, {"--drafter", "pld"}}) {
    std::vector<std::string> arguments{"--bundle", "a.gguf", "--bundle", "b.gguf"};
    arguments.insert(arguments.end(), alone.begin(), alone.end());
    const auto wrong = parse(arguments);
    ASSERT_FALSE(wrong);
    EXPECT_TRUE(contains(wrong.error().message, "give one"));
  }
}

TEST(ClientOptionsTest, RefusesPrivateNamesOverLimit) {
  const test::TemporaryDirectory directory;
  const auto names_of = [&](std::size_t count) {
    std::string lines;
    for (std::size_t i = 0; i < count; ++i) lines += "name " + std::to_string(i) + "\n";
    return parse({"--private-names", directory.write("names", lines).string()});
  };
  const auto all = names_of(PrivateVault::kNamesMax).value();
  PrivacyGuard guard(all.privacy);
  EXPECT_TRUE(guard.finds("I am name 9999."));
  EXPECT_TRUE(guard.vault().add("and a mark", PrivateType::text));
  const auto many = names_of(PrivateVault::kNamesMax + 1);
  EXPECT_TRUE(fails_with(many, Errc::usage, "10001 names, more than the limit of 10000"));
}

TEST(ClientOptionsTest, ReadsTokenAsOnlyLineOfFile) {
  const test::TemporaryDirectory directory;
  const auto token_of = [&](const std::string& text) {
    const auto file = directory.write("token", text);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return parse({"--token-file", file.string()});
  };
  EXPECT_EQ(token_of("secret")->token, "secret");
  EXPECT_EQ(token_of("secret\r\n")->token, "secret");
  for (const std::string& bad : {std::string(), std::string("\nsecret"),
                                 std::string("secret\nmore"), std::string(5000, 'x')}) {
    const auto config = token_of(bad);
    ASSERT_FALSE(config);
    EXPECT_TRUE(contains(config.error().message, "--token-file"));
  }
  EXPECT_TRUE(fails_with(parse({"--token-file", (directory / "none").string()}), Errc::io, "none"));
}

}  // namespace
}  // namespace edgedraft::client
