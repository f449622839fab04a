#include "client/commands/commands.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "shared/drafting/kinds.h"
#include "shared/drafting/moa/moa_tensors.h"
#include "shared/model/gguf.h"
#include "tests/model/hf_directory.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::client {
namespace {

const std::filesystem::path kFixtures = EDGEDRAFT_TEST_DATA "/fixtures";

class ConvertCommandTest : public ::testing::Test {
 protected:
  void expect_error(const ConvertCommandOptions& options, Errc code, const std::string& named) {
    EXPECT_TRUE(fails_with(run_convert(options), code, named)) << named;
  }

  ConvertCommandOptions options(const std::filesystem::path& input, const std::string& output) {
    ConvertCommandOptions o;
    o.input = input;
    o.output = directory_ / output;
    return o;
  }

  test::TemporaryDirectory directory_;
};

TEST_F(ConvertCommandTest, ConvertsDirectoryFileAndBundle) {
  auto target = options(kFixtures / "moa/target", "target.gguf");
  target.type = "f32";
  ASSERT_TRUE(run_convert(target));
  EXPECT_EQ(*GgufFile::open(target.output)->architecture(), "llama");

  auto smaller = options(target.output, "smaller.gguf");
  smaller.type = "q4_0";
  ASSERT_TRUE(run_convert(smaller));
  EXPECT_EQ(GgufFile::open(smaller.output)->find_tensor("blk.0.attn_q.weight")->type, DType::q4_0);
  EXPECT_LT(std::filesystem::file_size(smaller.output), std::filesystem::file_size(target.output));

  auto bundle = options(smaller.output, "bundle.gguf");
  bundle.bundle = true;
  bundle.drafter = kFixtures / "moa/moa-tli1";
  ASSERT_TRUE(run_convert(bundle));
  EXPECT_EQ((*drafter_kind_of(*GgufFile::open(bundle.output)))->name, "moa");
}

TEST_F(ConvertCommandTest, ReplacesFileOnlyWithForce) {
  auto again = options(kFixtures / "mha-tied", "m.gguf");
  directory_.write("m.gguf", "precious");
  expect_error(again, Errc::usage, "--force");
  EXPECT_EQ(std::filesystem::file_size(again.output), 8u);
  again.force = true;
  ASSERT_TRUE(run_convert(again));
  EXPECT_TRUE(GgufFile::open(again.output));
  auto itself = options(again.output, "m.gguf");
  itself.force = true;
  expect_error(itself, Errc::usage, "also an input file");
}

TEST_F(ConvertCommandTest, NamesInvalidOption) {
  expect_error({}, Errc::usage, "folder or a GGUF file");
  expect_error(options("/nowhere", "m.gguf"), Errc::io, "/nowhere");
  std::filesystem::create_symlink("loop", directory_ / "loop");
  expect_error(options(directory_ / "loop", "m.gguf"), Errc::io, "Too many levels");
  const auto refuses = [&](auto change, const std::string& named) {
    auto changed = options(kFixtures / "mha-tied", "m.gguf");
    change(changed);
    expect_error(changed, Errc::usage, named);
  };
  refuses([](auto& o) { o.output.clear(); }, "-o");
  refuses([](auto& o) { o.type = "q3_k"; }, "q4_k");
  refuses([](auto& o) { o.pre = "unheard-of"; }, "expected one of llama-bpe");
  refuses(
      [](auto& o) {
        o.pre = "qwen2";
        o.bundle = true;
      },
      "convert the target with --pre first");
  refuses([](auto& o) { o.bundle = true; }, "--drafter");
  refuses([](auto& o) { o.drafter = kFixtures / "moa/moa-tli0"; }, "--bundle");
}

TEST_F(ConvertCommandTest, RefusesDrafterFolderAsTargetAndNamesRemedy) {
  for (const std::string folder :
       {"medusa/medusa-1", "medusa/medusa-2", "eagle/eagle", "moa/moa-tli0"}) {
    const auto drafter = options(kFixtures / folder, "m.gguf");
    expect_error(drafter, Errc::unsupported, "--bundle --drafter " + drafter.input.string());
    expect_error(drafter, Errc::unsupported, "Convert the model that it was trained for");
  }
  // MEDUSA-2 trains and publishes model and heads together.
  test::HfDirectory whole;
  whole.tensors["medusa_head.0.0.linear.weight"] = {32, 32};
  whole.tensors["medusa_head.0.0.linear.bias"] = {32};
  const test::TemporaryDirectory folder;
  whole.write(folder);
  const auto both = options(folder.path(), "m.gguf");
  expect_error(both, Errc::unsupported, "(medusa), not a target");
  expect_error(both, Errc::unsupported, "without the drafter's tensors in a separate folder");
  EXPECT_EQ(directory_.file_count(), 0u);
}

// The public heads of version 1 are a PyTorch file beside this configuration.
TEST_F(ConvertCommandTest, RecognisesMedusaHeadsByConfiguration) {
  const test::TemporaryDirectory folder;
  folder.write(
      "config.json",
      R"({"medusa_num_heads": 5, "medusa_num_layers": 1, "base_model_name_or_path": "m"})");
  folder.write("medusa_lm_head.pt", "PK");
  expect_error(options(folder.path(), "m.gguf"), Errc::unsupported, "(medusa), not a target");
}

// The fixtures have no tokenizer, so this uses the demo's bundle.
TEST_F(ConvertCommandTest, ReducesVocabularyOfBundle) {
  auto o = options(EDGEDRAFT_MODELS "/moa-tli0.gguf", "reduced.gguf");
  o.corpus = directory_.write("corpus.txt", "What is 47 plus 38? It is 85, the cat says.");
  o.draft_vocab = 300;
  ASSERT_TRUE(run_convert(o));
  const GgufFile reduced = GgufFile::open(o.output).value();
  const GgufFile whole = GgufFile::open(o.input).value();
  EXPECT_EQ(read_moa(reduced)->config.draft_tokens.size(), 300u);
  EXPECT_EQ(reduced.find_tensor("sa.attn_q.weight")->type,
            whole.find_tensor("sa.attn_q.weight")->type);
}

TEST_F(ConvertCommandTest, NamesRemedyForInvalidVocabularyReduction) {
  const auto reduced = [&](std::optional<std::int64_t> count, const std::string& corpus) {
    auto o = options(EDGEDRAFT_MODELS "/moa-tli0.gguf", "reduced.gguf");
    o.draft_vocab = count;
    o.corpus = corpus;
    return o;
  };
  const std::string corpus = directory_.write("corpus.txt", "the cat").string();
  expect_error(reduced(4097, corpus), Errc::usage, "4096, its whole vocabulary");
  expect_error(reduced(100, ""), Errc::usage, "--corpus FILE");
  expect_error(reduced(std::nullopt, corpus), Errc::usage, "--draft-vocab N");
  expect_error(reduced(100, directory_ / "none.txt"), Errc::io, "none.txt");
  std::filesystem::create_symlink("loop", directory_ / "loop");
  expect_error(reduced(100, directory_ / "loop"), Errc::io, "Too many levels");
  expect_error(reduced(100, directory_.write("empty.txt", "").string()), Errc::usage, "no text");
  auto typed = reduced(100, corpus);
  typed.type = "q8_0";
  expect_error(typed, Errc::usage, "--type");
  auto target = reduced(100, corpus);
  target.input = EDGEDRAFT_MODELS "/target.gguf";
  expect_error(target, Errc::usage, "--bundle --drafter");
  target.input = kFixtures / "mha-tied";
  expect_error(target, Errc::usage, "--bundle --drafter");
  EXPECT_EQ(directory_.file_count(), 3u);
}

// A failed conversion leaves no partial file.
TEST_F(ConvertCommandTest, LeavesNoFileAfterFailure) {
  directory_.write("broken.gguf", "GGUF and no more");
  expect_error(options(directory_ / "broken.gguf", "m.gguf"), Errc::unsupported, "version");
  auto bundle = options(kFixtures / "moa/target", "target.gguf");
  ASSERT_TRUE(run_convert(bundle));
  auto wrong = options(directory_ / "target.gguf", "m.gguf");
  wrong.bundle = true;
  wrong.drafter = kFixtures / "head-dim";  // another head size, but a valid drafter
  ASSERT_TRUE(run_convert(wrong));
  wrong.drafter = kFixtures / "moa";  // not a checkpoint
  wrong.output = directory_ / "n.gguf";
  expect_error(wrong, Errc::io, "moa");
  EXPECT_EQ(directory_.file_count(), 3u);
}

}  // namespace
}  // namespace edgedraft::client
