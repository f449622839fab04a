#include "shared/drafting/moa/moa_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shared/drafting/bundle_conversion.h"
#include "shared/drafting/kinds.h"
#include "shared/model/fingerprint.h"
#include "shared/model/gguf.h"
#include "shared/model/gguf_writer.h"
#include "shared/model/safetensors.h"
#include "tests/drafting/damaged_bundle.h"
#include "tests/drafting/wide_models.h"
#include "tests/model/hf_directory.h"
#include "tests/support/expect.h"
#include "tests/support/fixtures.h"

namespace edgedraft {
namespace {

using test::kFixtures;
using test::TemporaryDirectory;
using testing::Damage;
using testing::wide_moa;
using testing::wide_target;
using testing::write_damaged;

// The fixtures' random target and drafters: 4 layers, width 32, 4 query heads over 2 KV heads of 8.
class BundleTest : public ::testing::Test {
 protected:
  BundleTest() {
    const auto done = convert_model(
        {.input = kFixtures / "moa/target", .output = target_path(), .type = DType::f16});
    EXPECT_TRUE(done) << done.error().message;
  }

  std::filesystem::path target_path() const { return directory_ / "target.gguf"; }
  std::filesystem::path bundle_path() const { return directory_ / "bundle.gguf"; }

  Result<void> bundle(const std::filesystem::path& drafter, DType type) const {
    return make_bundle(
        {.target = target_path(), .drafter = drafter, .output = bundle_path(), .type = type});
  }

  GgufFile moa(int tli, DType type) const {
    const auto done = bundle(kFixtures / "moa" / ("moa-tli" + std::to_string(tli)), type);
    EXPECT_TRUE(done) << done.error().message;
    return GgufFile::open(bundle_path()).value();
  }

  TemporaryDirectory directory_;
};

void expect_same_bytes(const GgufTensor* a, const GgufTensor* b) {
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(a->type, b->type) << a->name;
  EXPECT_TRUE(std::ranges::equal(a->bytes, b->bytes)) << a->name;
}

TEST_F(BundleTest, InfersEverySizeFromTensors) {
  const GgufFile file = moa(1, DType::f32);
  EXPECT_EQ((*drafter_kind_of(file))->name, "moa");
  const auto config = read_moa_config(file).value();
  EXPECT_EQ(config.vocabulary_count, 96u);
  EXPECT_EQ(config.tli, 1u);
  EXPECT_EQ(config.target_layer_count, 4u);
  EXPECT_EQ(config.context_length, 256u);
  EXPECT_EQ(config.self_attention.heads, (HeadShape{4, 2, 8}));
  EXPECT_EQ(config.self_attention.ffn_dim, 40u);
  EXPECT_EQ(config.cross_attention.ffn_dim, 56u);
  EXPECT_EQ(config.layer_self_attention.dim, 32u);
  EXPECT_EQ(config.layer_self_attention.heads, (HeadShape{4, 2, 8}));
  EXPECT_EQ(config.layer_self_attention.ffn_dim, 24u);
  EXPECT_EQ(config.sa_rope.style, RopeStyle::halves);
  EXPECT_EQ(config.target_rope.style, RopeStyle::pairs);
  const auto tensors = read_moa_tensors(file, config).value();
  EXPECT_EQ(tensors.ekv2e.rows, 32u);
  EXPECT_EQ(tensors.tli.size(), 1u);
}

TEST_F(BundleTest, CopiesTargetPartsBitForBitForAnyType) {
  const auto target = GgufFile::open(target_path());
  ASSERT_TRUE(target);
  for (const int tli : {0, 1, 3}) {
    const GgufFile file = moa(tli, DType::q8_0);
    expect_same_bytes(file.find_tensor("token_embd.weight"),
                      target->find_tensor("token_embd.weight"));
    expect_same_bytes(file.find_tensor("output_norm.weight"),
                      target->find_tensor("output_norm.weight"));
    for (int i = 0; i < tli; ++i) {
      for (const char* name : {"attn_q.weight", "ffn_down.weight", "attn_norm.weight"}) {
        expect_same_bytes(file.find_tensor("tli." + std::to_string(i) + "." + name),
                          target->find_tensor("blk." + std::to_string(4 - tli + i) + "." + name));
      }
    }
    EXPECT_EQ(file.find_tensor("tli." + std::to_string(tli) + ".attn_q.weight"), nullptr);
    EXPECT_EQ(file.find_tensor("sa.attn_q.weight")->type, DType::q8_0);
  }
}

TEST_F(BundleTest, KeepsRowOrderOfCheckpoint) {
  const GgufFile file = moa(0, DType::f32);
  const auto checkpoint = SafetensorsFile::open(kFixtures / "moa/moa-tli0/model.safetensors");
  ASSERT_TRUE(checkpoint);
  const std::pair<const char*, const char*> names[] = {
      {"sa.attn_q.weight", "self_attention.self_attn.q_proj.weight"},
      {"ca.attn_k.weight", "cross_attention.self_attn.k_proj.weight"},
      {"lsa.ffn_down.weight", "layer_self_attention.mlp.down_proj.weight"},
      {"ekv2e.bias", "Ekv2E.bias"},
  };
  for (const auto& [here, there] : names) {
    EXPECT_TRUE(std::ranges::equal(file.find_tensor(here)->bytes, checkpoint->find(there)->bytes))
        << here;
  }
}

TEST_F(BundleTest, NamesItsTarget) {
  const auto target = GgufFile::open(target_path());
  EXPECT_EQ(target_fingerprint_of(moa(0, DType::f16)).value(), model_fingerprint(*target).value());
}

void expect_error(const std::filesystem::path& path, const std::string& named) {
  const auto file = GgufFile::open(path).value();
  const auto config = read_moa_config(file);
  if (config) {
    const auto tensors = read_moa_tensors(file, *config);
    ASSERT_FALSE(tensors) << named;
    EXPECT_TRUE(contains(tensors.error().message, named));
  } else {
    EXPECT_TRUE(contains(config.error().message, named));
  }
}

TEST_F(BundleTest, NeedsEveryKey) {
  const GgufFile file = moa(1, DType::f32);
  for (const auto& [key, value] : file.metadata()) {
    const std::string name(key);
    if (!name.starts_with("edgedraft.") || name.find("fingerprint") != name.npos) continue;
    write_damaged(file, directory_ / "damaged.gguf", {.key = name});
    expect_error(directory_ / "damaged.gguf", name);
  }
}

TEST_F(BundleTest, NeedsEveryTensorInItsShape) {
  const GgufFile file = moa(1, DType::f32);
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string name(tensor.name);
    if (name == "output.weight") continue;  // absent means tied
    write_damaged(file, directory_ / "damaged.gguf", {.tensor = name});
    expect_error(directory_ / "damaged.gguf", name);
    if (name == "token_embd.weight") continue;  // defines the vocabulary size
    write_damaged(file, directory_ / "damaged.gguf", {.cut_tensor = name});
    expect_error(directory_ / "damaged.gguf", name);
  }
}

TEST_F(BundleTest, KeepsTargetRopeScalingInSelfAttentionOnly) {
  ASSERT_TRUE(convert_model(
      {.input = kFixtures / "moa/target", .output = target_path(), .type = DType::f32}));
  // The target with linear scaling: its fingerprint differs, its sizes do not.
  const auto plain = GgufFile::open(target_path());
  GgufMetadata metadata;
  for (const auto& [key, value] : plain->metadata()) metadata.set(std::string(key), value);
  metadata.set_string("llama.rope.scaling.type", "linear");
  metadata.set_f32("llama.rope.scaling.factor", 2.0f);
  std::vector<GgufTensorInfo> infos;
  for (const GgufTensor& tensor : plain->tensors()) {
    infos.push_back({std::string(tensor.name), tensor.type, tensor.dims});
  }
  auto writer = GgufWriter::create(target_path(), metadata, std::move(infos));
  ASSERT_TRUE(writer);
  for (const GgufTensor& tensor : plain->tensors()) ASSERT_TRUE(writer->write(tensor.bytes));
  ASSERT_TRUE(writer->finish());

  const auto config = read_moa_config(moa(1, DType::f32)).value();
  EXPECT_EQ(config.sa_rope.frequency_divisors, std::vector<float>(4, 2.0f));
  EXPECT_EQ(config.target_rope.frequency_divisors, std::vector<float>(4, 2.0f));
  EXPECT_TRUE(config.ca_rope.frequency_divisors.empty());
  EXPECT_TRUE(config.lsa_rope.frequency_divisors.empty());
}

// Copies a drafter's checkpoint, replacing or dropping its config.json.
void copy_drafter(const TemporaryDirectory& to, const nlohmann::json* changes) {
  std::filesystem::copy(kFixtures / "moa/moa-tli0/model.safetensors", to / "model.safetensors");
  if (changes == nullptr) return;
  std::ifstream in(kFixtures / "moa/moa-tli0/config.json");
  nlohmann::json config = nlohmann::json::parse(in);
  config.update(*changes);
  to.write("config.json", config.dump());
}

// The published checkpoint does not declare LSA's heads: as many as the target's query heads.
TEST_F(BundleTest, DrafterConfigurationIsOptional) {
  const TemporaryDirectory drafter;
  copy_drafter(drafter, nullptr);
  const auto done = bundle(drafter.path(), DType::f16);
  ASSERT_TRUE(done) << done.error().message;
  const auto file = GgufFile::open(bundle_path());
  EXPECT_EQ(read_moa_config(*file)->tli, 0u);
  EXPECT_EQ(read_moa_config(*file)->layer_self_attention.heads, (HeadShape{4, 2, 8}));
}

TEST_F(BundleTest, RejectsDrafterOfOtherTarget) {
  for (const nlohmann::json& changes :
       {nlohmann::json{{"hidden_size", 64}}, nlohmann::json{{"vocab_size", 97}},
        nlohmann::json{{"target_layers", 5}}, nlohmann::json{{"tli", 5}},
        nlohmann::json{{"lsa_num_attention_heads", 3}}}) {
    const TemporaryDirectory drafter;
    copy_drafter(drafter, &changes);
    EXPECT_TRUE(fails_with(bundle(drafter.path(), DType::f16), Errc::mismatch)) << changes;
  }
}

// The link carries 32,768 values per position, in 4,096 groups.
TEST_F(BundleTest, RejectsDrafterWithTooWideActivationRows) {
  const TemporaryDirectory target;
  wide_target().write(target);
  ASSERT_TRUE(convert_model({.input = target.path(), .output = target_path(), .type = DType::f16}));
  const auto make = [&](std::uint32_t tli) {
    const TemporaryDirectory drafter;
    wide_moa(tli).write(drafter);
    return bundle(drafter.path(), DType::f16);
  };
  EXPECT_TRUE(fails_with(make(4), Errc::unsupported, "33792 values"));
  EXPECT_FALSE(std::filesystem::exists(bundle_path()));

  const auto made = make(3);
  ASSERT_TRUE(made) << made.error().message;
  const GgufFile file = GgufFile::open(bundle_path()).value();
  ASSERT_TRUE(read_moa(file));
  const auto expect_refused = [&](const Damage& damage, const std::string& named) {
    write_damaged(file, directory_ / "damaged.gguf", damage);
    const auto read = read_moa(GgufFile::open(directory_ / "damaged.gguf").value());
    EXPECT_TRUE(fails_with(read, Errc::unsupported, named)) << named;
  };
  expect_refused({.u32s = {{"edgedraft.tli", 4}}, .copies = {{"tli.2.", "tli.3."}}},
                 "33792 values");
  expect_refused({.u32s = {{"edgedraft.target.head_count", 2048},
                           {"edgedraft.target.head_count_kv", 2048},
                           {"edgedraft.target.key_length", 2}}},
                 "12292 groups");
}

TEST_F(BundleTest, RejectsTargetThatIsNotADecoder) {
  moa(0, DType::f16);
  const auto done = make_bundle({.target = bundle_path(),
                                 .drafter = kFixtures / "moa/moa-tli0",
                                 .output = directory_ / "b.gguf",
                                 .type = DType::f16});
  ASSERT_TRUE(fails_with(done, Errc::unsupported));
}

TEST_F(BundleTest, PacksIndependentDrafter) {
  test::HfDirectory source;
  source.config["vocab_size"] = 96;
  source.tensors["lm_head.weight"] = source.tensors["model.embed_tokens.weight"] = {96, 32};
  const TemporaryDirectory drafter;
  source.write(drafter);
  const auto done = bundle(drafter.path(), DType::q8_0);
  ASSERT_TRUE(done) << done.error().message;
  const auto file = GgufFile::open(bundle_path());
  ASSERT_TRUE(file);
  EXPECT_EQ((*drafter_kind_of(*file))->name, "independent");
  EXPECT_EQ(read_decoder_config(*file)->layer_count, 1u);
  EXPECT_EQ(target_fingerprint_of(*file).value(),
            model_fingerprint(GgufFile::open(target_path()).value()).value());
}

TEST_F(BundleTest, RejectsIndependentDrafterOfOtherVocabulary) {
  const test::HfDirectory source;  // 300 tokens
  const TemporaryDirectory drafter;
  source.write(drafter);
  EXPECT_TRUE(fails_with(bundle(drafter.path(), DType::f16), Errc::mismatch));
  source.write_tokenizer(drafter);
  EXPECT_TRUE(contains(bundle(drafter.path(), DType::f16).error().message, "tokenizers"));
}

TEST_F(BundleTest, ConvertsBundleToOtherType) {
  moa(1, DType::f32);
  const auto path = directory_ / "q8.gguf";
  ASSERT_TRUE(
      convert_model_or_bundle({.input = bundle_path(), .output = path, .type = DType::q8_0}));
  const auto small = GgufFile::open(path);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->find_tensor("lsa.attn_q.weight")->type, DType::q8_0);
  expect_same_bytes(small->find_tensor("tli.0.attn_q.weight"),
                    GgufFile::open(bundle_path())->find_tensor("tli.0.attn_q.weight"));
  EXPECT_TRUE(read_moa_tensors(*small, read_moa_config(*small).value()));
}

}  // namespace
}  // namespace edgedraft
