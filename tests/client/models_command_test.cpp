#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/commands/commands.h"
#include "shared/program/options.h"
#include "tests/support/expect.h"
#include "tests/support/family_files.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::client {
namespace {

using nlohmann::json;

const std::filesystem::path kDemo = EDGEDRAFT_MODELS;

// Kinds of drafters that a model's report gives reasons against.
std::ptrdiff_t unfit_drafters(const json& model) {
  return std::ranges::count_if(model.at("drafters"),
                               [](const json& drafter) { return !drafter.at("reason").is_null(); });
}

class ModelsCommandTest : public ::testing::Test {
 protected:
  // Standard output; `status_` is the exit status.
  std::string output() {
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const auto done = run_models(options_);
    errors_ = ::testing::internal::GetCapturedStderr();
    status_ = done ? *done : -1;
    return ::testing::internal::GetCapturedStdout();
  }
  json report(std::vector<std::filesystem::path> files) {
    options_.files = std::move(files);
    options_.json = true;
    return json::parse(output());
  }
  json model(const std::filesystem::path& file) { return report({file}).at("models").at(0); }
  std::filesystem::path family(const std::string& name) {
    return directory_.write(name + ".gguf",
                            testing::unzipped(testing::kFamilies / (name + ".gguf.gz")));
  }
  // A copy in which a text of the file is replaced by one of the same length.
  std::filesystem::path changed(const std::string& file, const std::string& name,
                                const std::string& from, const std::string& to) {
    std::string bytes = test::file_text(kDemo / file);
    bytes.replace(bytes.find(from), from.size(), to);
    return directory_.write(name, bytes);
  }
  std::filesystem::path bundle_of(const std::filesystem::path& target,
                                  const std::filesystem::path& drafter) {
    ConvertCommandOptions o;
    o.input = target;
    o.bundle = true;
    o.drafter = drafter;
    o.output = directory_ / "bundle.gguf";
    EXPECT_TRUE(run_convert(o));
    return o.output;
  }
  // The demo target in another element type: other bytes, so another fingerprint.
  std::filesystem::path converted_target() {
    ConvertCommandOptions o;
    o.input = kDemo / "target.gguf";
    o.type = "q4_0";
    o.output = directory_ / "other-target.gguf";
    EXPECT_TRUE(run_convert(o));
    return o.output;
  }

  test::TemporaryDirectory directory_;
  ModelsOptions options_{.threads = 1};
  std::string errors_;
  int status_ = 0;
};

TEST_F(ModelsCommandTest, DescribesModelAndWhereItRuns) {
  const json found = model(kDemo / "target.gguf");
  EXPECT_EQ(status_, 0);
  EXPECT_EQ(found.at("architecture"), "llama");
  EXPECT_TRUE(contains(found.at("layers").get<std::string>(), "layers of attention"));
  EXPECT_GT(found.at("parameters"), 9000000);
  std::uint64_t elements = 0;
  for (const auto& [type, count] : found.at("types").items())
    elements += count.get<std::uint64_t>();
  EXPECT_EQ(found.at("parameters"), elements);
  EXPECT_EQ(found.at("chat_template"), true);
  EXPECT_EQ(found.at("fingerprint").get<std::string>().size(), 64u);
  EXPECT_EQ(found.at("bundle"), nullptr);
  EXPECT_EQ(found.at("runs").at("cpu"), "yes");
  EXPECT_EQ(found.at("failure"), nullptr);
  EXPECT_EQ(unfit_drafters(found), 1);
  EXPECT_TRUE(contains(found.dump(), "drafts for a gemma4 model, and the target is a llama"));
}

TEST_F(ModelsCommandTest, MemoryGrowsWithContextSessionsAndType) {
  const auto memory = [&] { return model(kDemo / "target.gguf").at("memory"); };
  options_.context_count = 1024;
  const json one = memory();
  options_.sessions = 5;
  const json five = memory();
  const auto bytes = [](const json& of, const char* key) {
    return of.at(key).get<std::uint64_t>();
  };
  EXPECT_EQ(bytes(five, "total_bytes") - bytes(one, "total_bytes"), 4 * bytes(one, "cache_bytes"));
  options_.kv_type = "f16";
  EXPECT_EQ(2 * bytes(memory(), "cache_bytes"), bytes(one, "cache_bytes"));
  options_.context_count = 2048;
  EXPECT_GT(bytes(memory(), "cache_bytes"), bytes(one, "cache_bytes") / 2);
}

TEST_F(ModelsCommandTest, ExplainsLayersAndDraftersOfOtherFamilies) {
  const json hybrid = model(family("qwen35moe"));
  const std::string layers = hybrid.at("layers");
  EXPECT_TRUE(contains(layers, " of gated delta nets, "));
  EXPECT_TRUE(contains(layers, " of attention"));
  EXPECT_TRUE(contains(layers, "experts and a shared one"));
  EXPECT_EQ(unfit_drafters(hybrid), 3);
  EXPECT_TRUE(contains(hybrid.dump(), "reads keys and values of Llama's layers"));
  EXPECT_TRUE(contains(model(family("gemma3")).at("layers").get<std::string>(),
                       " of attention with a window of "));
}

TEST_F(ModelsCommandTest, SaysWhatKeepsAFileFromRunning) {
  const json found =
      model(changed("target.gguf", "a.gguf", "tokenizer.ggml.model", "tokenizer.ggml.xxxxx"));
  EXPECT_EQ(status_, 0);
  EXPECT_EQ(found.at("runs").at("cpu"), "no");
  EXPECT_EQ(found.at("failure").at("code"), "bad_file");
  EXPECT_EQ(found.at("memory"), nullptr);
  options_.json = false;
  EXPECT_TRUE(contains(output(), "runs           no: "));
}

TEST_F(ModelsCommandTest, RecognisesBundlesOfATarget) {
  const auto other = converted_target();
  const json found = report({kDemo / "target.gguf", other, kDemo / "moa-tli0.gguf"});
  EXPECT_EQ(found.at("models").at(2).at("bundle"), "moa");
  EXPECT_EQ(found.at("models").at(2).at("target"), found.at("models").at(0).at("fingerprint"));
  ASSERT_EQ(found.at("pairs").size(), 2u);
  EXPECT_EQ(found.at("pairs").at(0).at("state"), "ready");
  EXPECT_EQ(found.at("pairs").at(1).at("state"), "mismatch");
  EXPECT_TRUE(contains(found.at("pairs").at(1).at("reason").get<std::string>(), "another target"));
  options_.json = false;
  EXPECT_FALSE(contains(output(), "another target"));
  options_.files = {other, kDemo / "moa-tli0.gguf"};
  EXPECT_TRUE(contains(output(), "no: made for another target"));
}

TEST_F(ModelsCommandTest, PrintedCommandMakesADrafter) {
  // Without its target's fingerprint, a drafter is a model like any other.
  const auto tiny = changed("independent.gguf", "tiny model.gguf", "edgedraft.target.fingerprint",
                            "edgedraft.tarxxx.fingerprint");
  const json found = report({tiny, kDemo / "target.gguf"});
  ASSERT_EQ(found.at("pairs").size(), 1u);
  const json& pair = found.at("pairs").at(0);
  EXPECT_EQ(pair.at("state"), "convertible");
  EXPECT_EQ(pair.at("command"), "edgedraft convert " + (kDemo / "target.gguf").string() +
                                    " --bundle --drafter '" + tiny.string() +
                                    "' -o 'tiny model-bundle.gguf'");
  const auto bundle = bundle_of(kDemo / "target.gguf", tiny);
  EXPECT_EQ(report({kDemo / "target.gguf", bundle}).at("pairs").at(0).at("state"), "ready");
}

TEST_F(ModelsCommandTest, ReportsOtherFilesBesideUnreadableOnes) {
  const auto text = directory_.write("notes.gguf", "not a model");
  const auto cut =
      directory_.write("cut.gguf", test::file_text(kDemo / "target.gguf").substr(0, 100000));
  const json found = report({text, kDemo / "target.gguf", cut, directory_.path()});
  EXPECT_EQ(found.at("models").size(), 1u);
  ASSERT_EQ(found.at("unreadable").size(), 3u);
  EXPECT_EQ(status_, exit_code_of(Errc::bad_file));
  for (const char* named : {"notes.gguf", "cut.gguf", "truncated", "is a folder: give"}) {
    EXPECT_TRUE(contains(errors_, named));
  }
}

TEST_F(ModelsCommandTest, ListsEveryFileOnce) {
  EXPECT_EQ(report({kDemo / "target.gguf", kDemo / "." / "target.gguf"}).at("models").size(), 1u);
}

TEST_F(ModelsCommandTest, NeedsAFile) {
  EXPECT_TRUE(fails_with(run_models(options_), Errc::usage, "GGUF"));
}

}  // namespace
}  // namespace edgedraft::client
