// Converting bundles of drafters that read the target's features, and refusing bad ones.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "shared/drafting/bundle_conversion.h"
#include "shared/drafting/eagle/eagle_tensors.h"
#include "shared/drafting/eagle3/eagle3_model.h"
#include "shared/drafting/kinds.h"
#include "shared/drafting/medusa/medusa_tensors.h"
#include "shared/drafting/training_record.h"
#include "shared/model/fingerprint.h"
#include "tests/drafting/damaged_bundle.h"
#include "tests/model/hf_directory.h"
#include "tests/support/expect.h"
#include "tests/support/fixtures.h"

namespace edgedraft {
namespace {

using test::HfDirectory;
using test::kFixtures;
using test::TemporaryDirectory;
using testing::Damage;
using testing::write_damaged;

// A checkpoint in the public layout for the fixtures' target: 96 tokens, width 32, 4 layers.
HfDirectory eagle_checkpoint() {
  HfDirectory checkpoint;
  checkpoint.config = {{"hidden_size", 32},
                       {"vocab_size", 96},
                       {"num_attention_heads", 4},
                       {"rope_theta", 5000.0},
                       {"rms_norm_eps", 1e-6}};
  checkpoint.tensors = {{"embed_tokens.weight", {96, 32}},
                        {"fc.weight", {32, 64}},
                        {"layers.0.self_attn.q_proj.weight", {32, 32}},
                        {"layers.0.self_attn.k_proj.weight", {16, 32}},
                        {"layers.0.self_attn.v_proj.weight", {16, 32}},
                        {"layers.0.self_attn.o_proj.weight", {32, 32}},
                        {"layers.0.mlp.gate_proj.weight", {40, 32}},
                        {"layers.0.mlp.up_proj.weight", {40, 32}},
                        {"layers.0.mlp.down_proj.weight", {32, 40}},
                        {"layers.0.post_attention_layernorm.weight", {32}}};
  return checkpoint;
}

// A checkpoint of EAGLE-3 in either public layout, of half the target's width.
HfDirectory eagle3_checkpoint(const std::string& layer) {
  HfDirectory checkpoint;
  checkpoint.config = {{"hidden_size", 16},
                       {"vocab_size", 96},
                       {"draft_vocab_size", 3},
                       {"intermediate_size", 40},
                       {"num_attention_heads", 4},
                       {"num_key_value_heads", 2},
                       {"head_dim", 8},
                       {"rope_theta", 5000.0},
                       {"eagle_aux_hidden_state_layer_ids", {1, 2, 3}}};
  checkpoint.tensors = {{"embed_tokens.weight", {96, 16}},
                        {"lm_head.weight", {3, 16}},
                        {"fc.weight", {16, 96}},
                        {"norm.weight", {16}},
                        {layer + "hidden_norm.weight", {16}},
                        {layer + "input_layernorm.weight", {16}},
                        {layer + "post_attention_layernorm.weight", {16}},
                        {layer + "self_attn.q_proj.weight", {32, 32}},
                        {layer + "self_attn.k_proj.weight", {16, 32}},
                        {layer + "self_attn.v_proj.weight", {16, 32}},
                        {layer + "self_attn.o_proj.weight", {16, 32}},
                        {layer + "mlp.gate_proj.weight", {40, 16}},
                        {layer + "mlp.up_proj.weight", {40, 16}},
                        {layer + "mlp.down_proj.weight", {16, 40}}};
  checkpoint.integers = {{"d2t", {4, 4, 90}}, {"t2d", std::vector<std::int64_t>(96)}};
  return checkpoint;
}

HfDirectory medusa_checkpoint(bool own_outputs, const std::string& prefix = "") {
  HfDirectory checkpoint;
  checkpoint.config = {{"medusa_num_heads", 2}, {"medusa_num_layers", 1}};
  checkpoint.tensors = {};
  for (const std::string head : {"0", "1", "2"}) {
    checkpoint.tensors[prefix + head + ".0.linear.weight"] = {32, 32};
    checkpoint.tensors[prefix + head + ".0.linear.bias"] = {32};
    if (own_outputs) checkpoint.tensors[prefix + head + ".1.weight"] = {96, 32};
  }
  return checkpoint;
}

class FeatureBundleTest : public ::testing::Test {
 protected:
  FeatureBundleTest() {
    const auto done = convert_model(
        {.input = kFixtures / "moa/target", .output = target_path(), .type = DType::f16});
    EXPECT_TRUE(done) << done.error().message;
  }

  std::filesystem::path target_path() const { return directory_ / "target.gguf"; }
  std::filesystem::path bundle_path() const { return directory_ / "bundle.gguf"; }
  Result<GgufFile> convert(const HfDirectory& checkpoint, DType type = DType::f32) const {
    const TemporaryDirectory folder;
    checkpoint.write(folder);
    const auto made = make_bundle(
        {.target = target_path(), .drafter = folder.path(), .output = bundle_path(), .type = type});
    if (!made) return made.error();
    return GgufFile::open(bundle_path());
  }
  void expect_refused(const HfDirectory& checkpoint, Errc code, const std::string& named) const {
    EXPECT_TRUE(fails_with(convert(checkpoint), code, named)) << named;
  }
  // Every key and tensor of the drafter itself is required, in its shape.
  void expect_all_is_needed(const GgufFile& file, const std::vector<std::string>& optional) const {
    const auto kind = drafter_kind_of(file).value();
    const auto is_optional = [&](const std::string& name) {
      return std::ranges::find(optional, name) != optional.end();
    };
    const auto expect_error = [&](const Damage& damage, const std::string& named) {
      write_damaged(file, directory_ / "damaged.gguf", damage);
      const auto damaged = GgufFile::open(directory_ / "damaged.gguf").value();
      const auto read = kind->read(damaged);
      ASSERT_FALSE(read) << named;
      EXPECT_TRUE(contains(read.error().message, named));
    };
    for (const auto& [key, value] : file.metadata()) {
      const std::string name(key);
      if (!name.starts_with("edgedraft.") || name.find("fingerprint") != name.npos) continue;
      if (!is_optional(name)) expect_error({.key = name}, name);
    }
    for (const GgufTensor& tensor : file.tensors()) {
      const std::string name(tensor.name);
      if (!is_optional(name)) expect_error({.tensor = name}, name);
      if (name != "token_embd.weight") expect_error({.cut_tensor = name}, name);
    }
  }

  TemporaryDirectory directory_;
};

TEST_F(FeatureBundleTest, ConvertsEagleCheckpointInPublicLayout) {
  const auto file = convert(eagle_checkpoint()).value();
  EXPECT_EQ((*drafter_kind_of(file))->name, "eagle");
  const auto model = read_eagle(file).value();
  EXPECT_EQ(model.config.vocabulary_count, 96u);
  EXPECT_EQ(model.config.target_layer_count, 4u);
  EXPECT_EQ(model.config.layer.heads, (HeadShape{4, 2, 8}));
  EXPECT_EQ(model.config.layer.ffn_dim, 40u);
  EXPECT_EQ(model.config.layer.rms_epsilon, 1e-6f);
  EXPECT_EQ(model.config.rope.theta, 5000.0f);
  EXPECT_EQ(model.config.rope.style, RopeStyle::halves);
  EXPECT_FALSE(model.tensors.fc_bias.present());
  EXPECT_FALSE(model.tensors.layer.attn_norm.present());
  // fc's halves: the embedding's columns come first.
  for (std::uint32_t r = 0; r < 32; ++r) {
    const auto at = [&](const TensorView& tensor, std::uint32_t col) {
      return load_le<float>(&tensor.bytes[(r * 32 + col) * sizeof(float)]);
    };
    EXPECT_EQ(at(model.tensors.fc_embedding, 5), HfDirectory::value_at("fc.weight", r * 64 + 5));
    EXPECT_EQ(at(model.tensors.fc_feature, 5), HfDirectory::value_at("fc.weight", r * 64 + 37));
  }
  EXPECT_EQ(target_fingerprint_of(file).value(),
            model_fingerprint(GgufFile::open(target_path()).value()).value());
  EXPECT_EQ((*drafter_kind_of(file))->read(file).value()->facts().pace_name, "eagle");
}

TEST_F(FeatureBundleTest, EagleConfigAndEmbeddingAreOptional) {
  HfDirectory checkpoint = eagle_checkpoint();
  checkpoint.config = nlohmann::json::object();
  checkpoint.tensors.erase("embed_tokens.weight");
  checkpoint.tensors["layers.0.input_layernorm.weight"] = {32};
  const auto model = read_eagle(convert(checkpoint).value()).value();
  EXPECT_EQ(model.config.layer.heads, (HeadShape{4, 2, 8}));  // the target's shape
  EXPECT_TRUE(model.tensors.layer.attn_norm.present());
}

// If a configuration omits the bias, the tensor decides.
TEST_F(FeatureBundleTest, FcBiasFollowsConfigurationAndTensors) {
  HfDirectory checkpoint = eagle_checkpoint();
  checkpoint.tensors["fc.bias"] = {32};
  EXPECT_TRUE(read_eagle(convert(checkpoint).value())->tensors.fc_bias.present());
  checkpoint.config["bias"] = true;
  EXPECT_TRUE(read_eagle(convert(checkpoint).value())->tensors.fc_bias.present());
  checkpoint.config["bias"] = false;
  expect_refused(checkpoint, Errc::unsupported, "fc.bias");
  checkpoint.tensors.erase("fc.bias");
  EXPECT_FALSE(read_eagle(convert(checkpoint).value())->tensors.fc_bias.present());
  checkpoint.config["bias"] = true;
  expect_refused(checkpoint, Errc::bad_file, "fc.bias");
}

TEST_F(FeatureBundleTest, VariantAffectsOnlyPaceName) {
  HfDirectory checkpoint = eagle_checkpoint();
  checkpoint.config["variant"] = "hass";
  const auto file = convert(checkpoint).value();
  const auto kind = drafter_kind_of(file).value();
  EXPECT_EQ(kind->name, "eagle");
  EXPECT_EQ(kind->read(file).value()->facts().pace_name, "eagle-hass");
  checkpoint.config["variant"] = "../x";
  const auto hostile = convert(checkpoint);
  ASSERT_TRUE(hostile);
  EXPECT_FALSE(kind->read(*hostile));
}

TEST_F(FeatureBundleTest, BundleKeepsTrainingFacts) {
  HfDirectory checkpoint = eagle_checkpoint();
  const auto unknown = read_training(convert(checkpoint).value());
  ASSERT_TRUE(unknown);
  EXPECT_FALSE(*unknown);
  checkpoint.config["edgedraft_training"] = {
      {"steps", 4050}, {"tokens", 7'776'000}, {"minutes", 101.5}, {"drafters", 2}};
  const auto known = read_training(convert(checkpoint).value());
  ASSERT_TRUE(known && *known);
  EXPECT_EQ((*known)->steps, 4050u);
  EXPECT_FLOAT_EQ((*known)->million_tokens, 7.776f);
  EXPECT_EQ((*known)->minutes, 101.5f);
  EXPECT_EQ((*known)->drafters, 2u);
  checkpoint.config["edgedraft_training"]["minutes"] = -1;
  expect_refused(checkpoint, Errc::bad_file, "minutes");
  checkpoint.config["edgedraft_training"] = "long";
  expect_refused(checkpoint, Errc::bad_file, "edgedraft_training");
}

TEST_F(FeatureBundleTest, RejectsMismatchedEagleCheckpoint) {
  HfDirectory narrow = eagle_checkpoint();
  narrow.tensors["fc.weight"] = {32, 96};
  expect_refused(narrow, Errc::bad_file, "fc.weight");
  HfDirectory other_vocabulary = eagle_checkpoint();
  other_vocabulary.tensors["embed_tokens.weight"] = {97, 32};
  expect_refused(other_vocabulary, Errc::mismatch, "embed_tokens.weight");
  HfDirectory other_width = eagle_checkpoint();
  other_width.config["hidden_size"] = 64;
  expect_refused(other_width, Errc::mismatch, "hidden_size");
  HfDirectory heads = eagle_checkpoint();
  heads.config["num_attention_heads"] = 5;
  expect_refused(heads, Errc::mismatch, "5 heads");
  HfDirectory two_layers = eagle_checkpoint();
  two_layers.tensors["layers.1.self_attn.q_proj.weight"] = {32, 32};
  expect_refused(two_layers, Errc::unsupported, "layers.1.");
  HfDirectory missing = eagle_checkpoint();
  missing.tensors.erase("layers.0.mlp.down_proj.weight");
  expect_refused(missing, Errc::bad_file, "down_proj");
}

TEST_F(FeatureBundleTest, EagleBundleNeedsEveryTensorInItsShape) {
  const auto file = convert(eagle_checkpoint()).value();
  expect_all_is_needed(file, {"output.weight"});  // absent means tied
}

TEST_F(FeatureBundleTest, ConvertsEagle3InEitherPublicLayout) {
  for (const std::string layer : {"midlayer.", "layers.0."}) {
    const auto file = convert(eagle3_checkpoint(layer)).value();
    EXPECT_EQ((*drafter_kind_of(file))->name, "eagle3");
    const auto model = read_eagle3(file).value();
    EXPECT_EQ(model.network.sizes.draft_tokens, (std::vector<std::uint32_t>{4, 5, 92}));
    EXPECT_EQ(model.network.plan.shape.heads, (HeadShape{4, 2, 8}));
    EXPECT_EQ(model.network.rope.theta, 5000.0f);
    EXPECT_EQ(model.network.output->rows, 3u);
    EXPECT_EQ(model.projection.states, (std::vector<std::uint32_t>{1, 2, 3}));
    EXPECT_EQ(model.projection.target_dim, 32u);
    EXPECT_FALSE(model.network.starts_normed);
    EXPECT_FALSE(model.projection.norm_before.present());
    expect_all_is_needed(file, {"edgedraft.d2t"});
  }
}

TEST_F(FeatureBundleTest, Eagle3NormsFollowConfiguration) {
  HfDirectory checkpoint = eagle3_checkpoint("midlayer.");
  checkpoint.config["norm_before_fc"] = true;
  expect_refused(checkpoint, Errc::bad_file, "input_norm.weight");
  checkpoint.config["norm_before_residual"] = true;
  checkpoint.tensors["input_norm.weight"] = {96};
  const auto file = convert(checkpoint).value();
  EXPECT_TRUE(read_eagle3(file)->network.starts_normed);
  EXPECT_TRUE(read_eagle3(file)->projection.norm_before.present());
  checkpoint.config.erase("norm_before_fc");
  expect_refused(checkpoint, Errc::unsupported, "input_norm.weight");
}

// Speculators nest the layer's configuration; in eagle_config, layers are those of the outputs.
TEST_F(FeatureBundleTest, ReadsNestedConfigurationsOfEagle3) {
  HfDirectory checkpoint = eagle3_checkpoint("layers.0.");
  checkpoint.config.erase("eagle_aux_hidden_state_layer_ids");
  expect_refused(checkpoint, Errc::unsupported, "increasing");  // 2, 2 and 1 of 4 layers
  checkpoint.config = {{"transformer_layer_config", checkpoint.config},
                       {"eagle_config", {{"eagle_aux_hidden_state_layer_ids", {0, 1, 3}}}}};
  const auto file = convert(checkpoint).value();
  EXPECT_EQ(read_eagle3(file)->projection.states, (std::vector<std::uint32_t>{1, 2, 4}));
  EXPECT_EQ(read_eagle3(file)->network.rope.theta, 5000.0f);
}

// The target's embedding and head serve a drafter of its width.
TEST_F(FeatureBundleTest, Eagle3UsesTargetVocabularyIfItHasNone) {
  HfDirectory checkpoint = eagle3_checkpoint("midlayer.");
  checkpoint.tensors.erase("lm_head.weight");
  checkpoint.tensors.erase("embed_tokens.weight");
  expect_refused(checkpoint, Errc::bad_file, "d2t");
  checkpoint.integers.clear();
  expect_refused(checkpoint, Errc::mismatch, "token_embd.weight");
  checkpoint.config["hidden_size"] = 32;
  for (auto& [name, shape] : checkpoint.tensors) {
    for (std::uint64_t& size : shape) {
      // Widths of 16 and their double become 32 and 64; rows of keys and values stay.
      const bool is_input = &size == &shape.back() && name.find("self_attn") != name.npos;
      if (is_input && name.find("o_proj") == name.npos) {
        size = 64;
      } else if (size == 16 && (name.find("k_proj") == name.npos) &&
                 name.find("v_proj") == name.npos) {
        size = 32;
      }
    }
  }
  const auto file = convert(checkpoint).value();
  const auto model = read_eagle3(file).value();
  EXPECT_TRUE(model.network.sizes.draft_tokens.empty());
  EXPECT_EQ(model.network.token_embd.rows, 96u);
  EXPECT_EQ(file.find_tensor("token_embd.weight")->type, DType::f16);  // as in the target
}

TEST_F(FeatureBundleTest, RejectsMismatchedEagle3Checkpoint) {
  const auto changed = [&](const auto& change) {
    HfDirectory checkpoint = eagle3_checkpoint("midlayer.");
    change(checkpoint);
    return checkpoint;
  };
  using Checkpoint = HfDirectory;
  const auto table = [&](std::vector<std::int64_t> differences) {
    return changed([&](Checkpoint& c) { c.integers["d2t"] = differences; });
  };
  for (const std::int64_t wrong : {std::int64_t{94}, std::int64_t{-3}, INT64_MIN, INT64_MAX}) {
    expect_refused(table({0, 0, wrong}), Errc::bad_file, "outside the target's");
  }
  expect_refused(table({4, 3, 2}), Errc::bad_file, "twice");
  expect_refused(table({4, 5}), Errc::bad_file, "lm_head.weight");
  expect_refused(table(std::vector<std::int64_t>(97)), Errc::bad_file, "97 entries");
  expect_refused(changed([](Checkpoint& c) { c.config["target_hidden_size"] = 64; }),
                 Errc::mismatch, "target_hidden_size");
  expect_refused(changed([](Checkpoint& c) { c.config["vocab_size"] = 97; }), Errc::mismatch,
                 "vocab_size");
  expect_refused(changed([](Checkpoint& c) {
                   c.tensors["fc.weight"] = {16, 64};
                 }),
                 Errc::bad_file, "fc.weight");
  expect_refused(changed([](Checkpoint& c) { c.tensors["fc.bias"] = {16}; }), Errc::unsupported,
                 "fc.bias");
  expect_refused(changed([](Checkpoint& c) { c.config["num_hidden_layers"] = 2; }),
                 Errc::unsupported, "2 layers");
  for (const nlohmann::json& layers :
       {nlohmann::json{1, 2, 9}, nlohmann::json("all"), nlohmann::json{1, -2, 3},
        nlohmann::json(std::vector<int>(kFusedStatesMax + 1))}) {
    expect_refused(
        changed([&](Checkpoint& c) { c.config["eagle_aux_hidden_state_layer_ids"] = layers; }),
        Errc::bad_file, "eagle_aux_hidden_state_layer_ids");
  }
}

TEST_F(FeatureBundleTest, ConvertsMedusaHeadsInEitherPublicLayout) {
  for (const bool own_outputs : {false, true}) {
    for (const std::string prefix : {"", "medusa_head."}) {
      const auto file = convert(medusa_checkpoint(own_outputs, prefix)).value();
      EXPECT_EQ((*drafter_kind_of(file))->name, "medusa");
      const auto model = read_medusa(file).value();
      EXPECT_EQ(model.config.head_count, 3u);  // whatever config.json declares
      EXPECT_EQ(model.config.dim, 32u);
      EXPECT_EQ(model.config.target_layer_count, 4u);
      EXPECT_TRUE(model.config.tree.empty());
      EXPECT_EQ(model.tensors.output.has_value(), !own_outputs);
      EXPECT_EQ(model.tensors.heads[2].output.present(), own_outputs);
    }
  }
}

TEST_F(FeatureBundleTest, MedusaBundleNeedsEveryTensorInItsShape) {
  for (const bool own_outputs : {false, true}) {
    const auto file = convert(medusa_checkpoint(own_outputs)).value();
    // Optional: without the one the heads share an output, without the other they use the
    // embedding.
    expect_all_is_needed(file, own_outputs ? std::vector<std::string>{"head.0.output.weight"}
                                           : std::vector<std::string>{"output.weight"});
  }
}

TEST_F(FeatureBundleTest, StoresRankTreeInBundle) {
  HfDirectory checkpoint = medusa_checkpoint(false);
  checkpoint.config["medusa_choices"] = {{0, 1, 0}, {0}, {2}, {0, 1}, {0, 0}};
  const auto model = read_medusa(convert(checkpoint).value()).value();
  const std::vector<MedusaChoice> expected = {{0, 0}, {0, 2}, {1, 0}, {1, 1}, {4, 0}};
  EXPECT_EQ(model.config.tree, expected);
}

TEST_F(FeatureBundleTest, RejectsMismatchedMedusaHeads) {
  HfDirectory width = medusa_checkpoint(false);
  width.tensors["1.0.linear.weight"] = {32, 48};
  expect_refused(width, Errc::bad_file, "1.0.linear.weight");
  HfDirectory missing = medusa_checkpoint(true);
  missing.tensors.erase("2.1.weight");
  expect_refused(missing, Errc::bad_file, "2.1.weight");
  HfDirectory blocks = medusa_checkpoint(false);
  blocks.tensors["0.1.linear.weight"] = {32, 32};
  expect_refused(blocks, Errc::unsupported, "0.1.linear.weight");
  HfDirectory vocabulary = medusa_checkpoint(false);
  vocabulary.config["vocab_size"] = 97;
  expect_refused(vocabulary, Errc::mismatch, "vocab_size");
  using nlohmann::json;
  const std::pair<json, const char*> trees[] = {
      {json("0"), "medusa_choices"},    // not a list
      {json{{"a"}}, "medusa_choices"},  // not a number
      {json{{-1}}, "medusa_choices"},   // a negative rank
      {json{{64}}, "the highest rank is 63"},
      {json(std::vector<json>(256, json{0})), "at most 255 are supported"},
      {json{{0}, {0}}, "twice"},      //
      {json{{0}, {1, 0}}, "parent"},  // its parent is missing
      {json{{0}, {0, 0}, {0, 0, 0}, {0, 0, 0, 0}}, "deeper"},
      {json(std::vector<std::vector<int>>{{}}), "without a rank"},
  };
  for (const auto& [choices, named] : trees) {
    HfDirectory tree = medusa_checkpoint(false);
    tree.config["medusa_choices"] = choices;
    expect_refused(tree, Errc::bad_file, named);
  }
}

// Only a maliciously crafted file has these.
TEST_F(FeatureBundleTest, RejectsHostileTrees) {
  HfDirectory checkpoint = medusa_checkpoint(false);
  checkpoint.config["medusa_choices"] = {{0}, {1}};
  const auto file = convert(checkpoint).value();
  struct Tree {
    std::vector<std::int32_t> parents;
    std::vector<std::int32_t> ranks;
  };
  const std::vector<std::int32_t> many(256, 0);
  for (const Tree& tree : {Tree{{0, 2}, {0, 0}},              // a node below itself
                           Tree{{3, 0}, {0, 0}},              // a parent that does not exist
                           Tree{{-1, 0}, {0, 0}},             //
                           Tree{{0, 0}, {0, 64}},             // ranks out of range
                           Tree{{0, 0}, {0, -1}},             //
                           Tree{{0, 0}, {1, 1}},              // duplicate
                           Tree{{0, 0}, {1}},                 // lists of unequal length
                           Tree{{0, 1, 2, 3}, {0, 0, 0, 0}},  // deeper than the number of heads
                           Tree{many, many}}) {
    Damage damage;
    damage.i32s = {{std::string(kMedusaTreeParents), tree.parents},
                   {std::string(kMedusaTreeRanks), tree.ranks}};
    write_damaged(file, directory_ / "damaged.gguf", damage);
    const auto read = read_medusa(GgufFile::open(directory_ / "damaged.gguf").value());
    EXPECT_TRUE(fails_with(read, Errc::bad_file));
  }
}

// The head shared with the target may cover fewer tokens.
TEST_F(FeatureBundleTest, DraftVocabulariesCanBeReduced) {
  const std::vector<std::uint32_t> tokens{1, 5, 7, 90};
  for (const HfDirectory& checkpoint : {eagle_checkpoint(), medusa_checkpoint(false)}) {
    ASSERT_TRUE(convert(checkpoint));
    const auto reduced = reduce_bundle(
        {.bundle = bundle_path(), .output = directory_ / "r.gguf", .draft_tokens = tokens});
    ASSERT_TRUE(reduced) << reduced.error().message;
    const auto file = GgufFile::open(directory_ / "r.gguf").value();
    EXPECT_TRUE(drafter_kind_of(file).value()->read(file));
  }
  ASSERT_TRUE(convert(medusa_checkpoint(true)));
  EXPECT_FALSE(reduce_bundle(
      {.bundle = bundle_path(), .output = directory_ / "r.gguf", .draft_tokens = tokens}));
}

TEST_F(FeatureBundleTest, TargetPartsKeepTheirBitsInOtherType) {
  for (const HfDirectory& checkpoint : {eagle_checkpoint(), medusa_checkpoint(false)}) {
    ASSERT_TRUE(convert(checkpoint));
    ASSERT_TRUE(convert_model_or_bundle(
        {.input = bundle_path(), .output = directory_ / "q8.gguf", .type = DType::q8_0}));
    const auto file = GgufFile::open(directory_ / "q8.gguf").value();
    EXPECT_EQ(file.find_tensor("token_embd.weight")->type, DType::f16);
    EXPECT_TRUE(std::ranges::any_of(file.tensors(),
                                    [](const GgufTensor& t) { return t.type == DType::q8_0; }));
    EXPECT_TRUE(drafter_kind_of(file).value()->read(file));
  }
}

}  // namespace
}  // namespace edgedraft
