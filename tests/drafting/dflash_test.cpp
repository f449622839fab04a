// Block drafters against llama.cpp's results and against themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "shared/drafting/dflash/dflash_drafter.h"
#include "shared/drafting/dflash/dflash_kind.h"
#include "shared/drafting/kinds.h"
#include "shared/model/fingerprint.h"
#include "tests/drafting/damaged_bundle.h"
#include "tests/model/hf_checkpoint.h"
#include "tests/runtime/op_test.h"
#include "tests/support/block_drafter.h"
#include "tests/support/expect.h"
#include "tests/support/family_models.h"
#include "tests/support/made_up_rows.h"
#include "tests/support/matrix_reading.h"

namespace edgedraft {
namespace {

using nlohmann::json;
using testing::BlockDrafter;
using testing::FamilyModel;
using testing::made_up_rows;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kDim = 64;
constexpr std::uint32_t kBlock = 8;

std::uint32_t likeliest(std::span<const float> logits) {
  return static_cast<std::uint32_t>(std::ranges::max_element(logits) - logits.begin());
}

class DflashTest : public testing::OpTest {
 protected:
  static constexpr std::uint32_t kContext = 512;

  // The tap's rows for all positions of a text.
  std::vector<float> fused(const BlockDrafter& own, const Tokens& text) {
    FamilyModel target(*cpu_, testing::kBlockDraftersTarget, kContext, testing::Weights::as_stored,
                       testing::Keeps::inputs);
    Decoder& decoder = target.decoder();
    KvCache cache = decoder.make_cache();
    decoder.append(cache, text);
    std::vector<float> rows(text.size() * kDim);
    FusedTap(*cpu_, own.model().fusion)
        .read(cache, 0, static_cast<std::uint32_t>(text.size()), rows);
    return rows;
  }

  std::unique_ptr<Backend> cpu_ = make_cpu_backend({.threads = 1});
};

// After every fifth token of the target: the drafter has the states of all tokens but the newest.
TEST_P(DflashTest, DraftsTheBlocksOfLlamaCpp) {
  constexpr float kNoise = 0.05f;  // smaller margins do not decide
  for (const std::string& name : testing::kBlockDrafterNames) {
    const BlockDrafter own(name);
    const json expected = json::parse(test::file_text(testing::kBlockDrafters / (name + ".json")));
    for (const json& prompt : expected.at("prompts")) {
      Tokens text = prompt.at("ids");
      const std::size_t prompt_count = text.size();
      const Tokens answer = prompt.at("target");
      text.insert(text.end(), answer.begin(), answer.end());
      const std::vector<float> rows = fused(own, text);
      DflashWeights weights(backend(), own.model(), kContext);
      const KvCache cache = weights.make_cache();
      std::size_t known = 0;
      for (std::size_t s = 0; s < answer.size(); s += 5) {
        const std::size_t count = prompt_count + s;
        weights.store_context(cache, static_cast<std::uint32_t>(known),
                              std::span(rows).subspan(known * kDim, (count - known) * kDim));
        known = count;
        const std::uint32_t last = text[count];
        const auto logits = testing::read_matrix(
            backend(), weights.logits(cache, {.context_first = 0,
                                              .first = static_cast<std::uint32_t>(count),
                                              .tokens = std::span(&last, 1)}));
        const std::size_t vocabulary = logits.size() / (kBlock - 1);
        for (std::size_t i = 0; i < kBlock - 1; ++i) {
          const auto row = std::span(logits).subspan(i * vocabulary, vocabulary);
          if (s == 0 && !prompt.at("logits").empty()) {
            testing::expect_close(row, prompt.at("logits")[i].get<std::vector<float>>(), 0.02);
          }
          if (prompt.at("margins")[s][i] < kNoise) continue;
          EXPECT_EQ(likeliest(row), prompt.at("drafts")[s][i])
              << name << ", token " << s << ", " << i;
        }
      }
    }
  }
}

// Made-up states; the window of `dflash-swa` ends inside the context.
class DflashDrafterTest : public testing::OpTest {
 protected:
  static constexpr std::uint32_t kPositions = 96;
  static constexpr TreeShape kShape{.breadth = 4, .depth = 9, .nodes = 40};

  std::unique_ptr<Drafter> fresh() {
    if (!weights_) weights_ = make_dflash_model(own_.model())->load(backend(), kPositions);
    return weights_->make_drafter();
  }
  static Tokens some_tokens(std::uint32_t count) {
    Tokens tokens;
    for (std::uint32_t i = 0; i < count; ++i) tokens.push_back(3 + (i * i + 5 * i) % 300);
    return tokens;
  }
  static void add_states(Drafter& drafter, std::uint32_t first, std::uint32_t count) {
    drafter.add_activations(first, made_up_rows(kDim, first, count));
  }
  std::unique_ptr<Drafter> with(std::uint32_t tokens, std::uint32_t states) {
    auto drafter = fresh();
    drafter->append(some_tokens(tokens));
    add_states(*drafter, 0, states);
    return drafter;
  }
  static std::uint32_t depth(const DraftTree& tree) { return std::ranges::max(tree.depths()); }

  BlockDrafter own_{"dflash-swa"};
  std::unique_ptr<DrafterWeights> weights_;
};

TEST_P(DflashDrafterTest, EachTokenOfLagMakesTreesShallower) {
  for (std::uint32_t lag = 1; lag <= kBlock + 1; ++lag) {
    const auto drafter = with(50, 50 - lag);
    const std::uint32_t levels = kBlock - std::min(kBlock, lag);
    EXPECT_EQ(depth(drafter->draft(chain_shape(9))), levels) << lag;
  }
}

// The states of a long prompt arrive newest first, and those of tokens to come may be there.
TEST_P(DflashDrafterTest, OrderOfArrivalChangesNoTree) {
  const DraftTree expected = with(80, 79)->draft(kShape);
  const auto newest_first = fresh();
  newest_first->append(some_tokens(80));
  for (std::uint32_t first = 79; first > 0;) {
    first -= std::min(first, 30u);
    add_states(*newest_first, first, std::min(30u, 79 - first));
    EXPECT_FALSE(newest_first->draft(kShape).empty());
  }
  EXPECT_EQ(newest_first->draft(kShape), expected);
  const auto ahead = fresh();
  add_states(*ahead, 0, 90);
  ahead->append(some_tokens(30));
  EXPECT_FALSE(ahead->draft(kShape).empty());
  ahead->append(std::span<const std::uint32_t>(some_tokens(80)).subspan(30));
  EXPECT_EQ(ahead->draft(kShape), expected);
}

// States after a gap are a context of their own, at any distance from the text's start.
TEST_P(DflashDrafterTest, SeesNoContextBeforeAGap) {
  const auto drafter = fresh();
  drafter->append(some_tokens(80));
  add_states(*drafter, 50, 29);
  const DraftTree late = drafter->draft(kShape);
  add_states(*drafter, 0, 40);
  EXPECT_EQ(drafter->draft(kShape), late);
  add_states(*drafter, 40, 10);
  EXPECT_EQ(drafter->draft(kShape), with(80, 79)->draft(kShape));
}

TEST_P(DflashDrafterTest, TruncatedTokensAndStatesLeaveNoTrace) {
  for (const std::uint32_t kept : {1u, 20u, 59u}) {
    const auto drafter = with(60, 60);
    drafter->draft(kShape);
    drafter->truncate(kept);
    EXPECT_EQ(drafter->token_count(), kept);
    const auto straight = with(kept, kept);
    for (Drafter* each : {drafter.get(), straight.get()}) {
      each->append(Tokens{30, 31});
      each->add_activations(kept, made_up_rows(kDim, 200, 1));
    }
    EXPECT_EQ(drafter->draft(kShape), straight->draft(kShape)) << kept;
  }
}

TEST_P(DflashDrafterTest, InterruptedGrowthFindsTheSameTree) {
  const DraftTree expected = with(60, 59)->draft(kShape);
  const auto drafter = with(60, 59);
  TreeGrowth growth(kShape);
  EXPECT_FALSE(drafter->grow(growth, {.rows = 0}));
  for (int steps = 0; !drafter->grow(growth, {.rows = 1}); ++steps) ASSERT_LT(steps, 1000);
  EXPECT_EQ(growth.tree(), expected);
}

TEST_P(DflashDrafterTest, DraftsUpToTheEndOfItsContext) {
  for (const auto& [tokens, levels] : {std::pair(kPositions - 2, 2u), {kPositions, 0u}}) {
    const auto drafter = with(tokens, tokens + 5);
    EXPECT_EQ(depth(drafter->draft(chain_shape(9))), levels);
  }
  EXPECT_TRUE(with(5, 0)->draft(chain_shape(9)).empty());
}

INSTANTIATE_TEST_SUITE_P(Backends, DflashTest, ::testing::ValuesIn(testing::drafting_backends()),
                         testing::backend_name);
INSTANTIATE_TEST_SUITE_P(Backends, DflashDrafterTest,
                         ::testing::ValuesIn(testing::drafting_backends()), testing::backend_name);

class DflashBundleTest : public ::testing::TestWithParam<std::string> {
 protected:
  BlockDrafter own_{GetParam()};
  test::TemporaryDirectory directory_;
};

TEST_P(DflashBundleTest, BundleNamesItsTargetAndStates) {
  const GgufFile target = GgufFile::open(own_.target_path()).value();
  EXPECT_EQ((*drafter_kind_of(own_.file()))->name, "dflash");
  EXPECT_EQ(target_fingerprint_of(own_.file()).value(), model_fingerprint(target).value());
  const auto drafter = (*drafter_kind_of(own_.file()))->read(own_.file()).value();
  const auto cpu = make_cpu_backend({.threads = 1});
  const auto tap = drafter->make_tap(*cpu);
  EXPECT_TRUE(std::ranges::equal(tap->states(), own_.model().fusion.states));
  // One state's width, however many are fused.
  EXPECT_TRUE(std::ranges::equal(tap->scale_groups(), Tokens{kDim}));
}

// Every tensor of the drafter is needed, in its shape, and keys are in range.
TEST_P(DflashBundleTest, RefusesDamagedBundles) {
  const auto expect_refused = [&](const testing::Damage& damage, const std::string& named) {
    testing::write_damaged(own_.file(), directory_ / "damaged.gguf", damage);
    const auto read = read_dflash(GgufFile::open(directory_ / "damaged.gguf").value());
    ASSERT_FALSE(read) << named;
    EXPECT_TRUE(contains(read.error().message, named));
  };
  for (const GgufTensor& tensor : own_.file().tensors()) {
    const std::string name(tensor.name);
    if (name != "output.weight") expect_refused({.tensor = name}, name);
    if (name != "token_embd.weight") expect_refused({.cut_tensor = name}, name);
  }
  const auto key = [](std::string_view name) { return std::string(name); };
  for (const auto name : {kDflashStates, kDflashWindows, kDflashBlockSize, kDflashMaskToken}) {
    expect_refused({.key = key(name)}, key(name));
  }
  for (const auto& states : std::vector<std::vector<std::int32_t>>{{}, {-1}, {1, 99}, {2, 2}}) {
    expect_refused({.i32s = {{key(kDflashStates), states}}}, key(kDflashStates));
  }
  for (const auto& windows : std::vector<std::vector<std::int32_t>>{{}, {0, 0, -1}}) {
    expect_refused({.i32s = {{key(kDflashWindows), windows}}}, key(kDflashWindows));
  }
  for (const std::uint32_t size : {0u, 1u, 1000u}) {
    expect_refused({.u32s = {{key(kDflashBlockSize), size}}}, key(kDflashBlockSize));
  }
  expect_refused({.u32s = {{key(kDflashMaskToken), 1u << 30}}}, key(kDflashMaskToken));
  expect_refused({.u32s = {{"qwen3.embedding_length", 1u << 20}}}, "per position");
  expect_refused({.u32s = {{"qwen3.block_count", 4}}}, "");
}

TEST_P(DflashBundleTest, RefusesSourcesThatItWouldDraftWronglyFrom) {
  const GgufFile source = GgufFile::open(own_.source_path()).value();
  const auto expect_refused = [&](const testing::Damage& damage, const std::string& named) {
    testing::write_damaged(source, directory_ / "damaged.gguf", damage);
    const auto made = make_bundle({.target = own_.target_path(),
                                   .drafter = directory_ / "damaged.gguf",
                                   .output = directory_ / "bundle.gguf"});
    ASSERT_FALSE(made) << named;
    EXPECT_TRUE(contains(made.error().message, named));
    EXPECT_FALSE(std::filesystem::exists(directory_ / "bundle.gguf"));
  };
  for (const char* name : {"fc.weight", "enc.output_norm.weight", "blk.1.attn_q_norm.weight"}) {
    expect_refused({.tensor = name}, name);
    expect_refused({.cut_tensor = name}, name);
  }
  expect_refused({.copies = {{"blk.0.attn_norm", "selector_hidden"}}}, "DFlash2");
  expect_refused({.copies = {{"blk.0.attn_norm", "blk.0.attn_conv_base"}}}, "DFlash2");
  expect_refused({.copies = {{"blk.0.attn_norm", "markov_w1"}}}, "DSpark");
  expect_refused({.copies = {{"blk.0.attn_norm", "blk.0.attn_sinks"}}}, "attn_sinks");
  expect_refused({.key = "tokenizer.ggml.mask_token_id"}, "mask_token_id");
  expect_refused({.u32s = {{"dflash.block_size", 1}}}, "block has 1 tokens");
  expect_refused({.i32s = {{"dflash.target_layers", {1, 99}}}}, "layer 99");
  expect_refused({.strings = {{"dflash.hidden_act", "gelu"}}}, "gelu");
}

// The layout of z-lab's checkpoints. Their ids are of the layers whose outputs are read.
test::HfCheckpoint checkpoint_of(const GgufFile& file, const DflashModel& model) {
  const DecoderConfig& decoder = model.config.decoder;
  const LayerShape& shape = decoder.layer;
  test::HfCheckpoint checkpoint;
  json ids;
  for (const std::uint32_t state : model.fusion.states) ids.push_back(state - 1);
  checkpoint.config = {
      {"hidden_size", shape.dim},
      {"num_hidden_layers", decoder.layer_count},
      {"num_attention_heads", shape.heads.query_heads},
      {"num_key_value_heads", shape.heads.kv_heads},
      {"head_dim", shape.heads.head_dim},
      {"intermediate_size", shape.ffn_dim},
      {"vocab_size", model.config.vocabulary_count},
      {"max_position_embeddings", decoder.context_length},
      {"rms_norm_eps", shape.rms_epsilon},
      {"rope_theta", decoder.rope.theta},
      {"block_size", model.config.block_size},
      {"is_causal", model.config.causal},
      {"dflash_config", {{"mask_token_id", model.config.mask_token}, {"target_layer_ids", ids}}}};
  json types;
  for (const LayerPlan& layer : decoder.layers) {
    types.push_back(layer.window > 0 ? "sliding_attention" : "full_attention");
    if (layer.window == 0) continue;
    checkpoint.config["use_sliding_window"] = true;
    checkpoint.config["sliding_window"] = layer.window;
  }
  checkpoint.config["layer_types"] = types;
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"fc_norm", "hidden_norm"},
      {"output_norm", "norm"},
      {"layer.", "layers."},
      {"attn_q_norm", "self_attn.q_norm"},
      {"attn_k_norm", "self_attn.k_norm"},
      {"attn_q.", "self_attn.q_proj."},
      {"attn_k.", "self_attn.k_proj."},
      {"attn_v.", "self_attn.v_proj."},
      {"attn_output.", "self_attn.o_proj."},
      {"attn_norm", "input_layernorm"},
      {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate.", "mlp.gate_proj."},
      {"ffn_up.", "mlp.up_proj."},
      {"ffn_down.", "mlp.down_proj."}};
  constexpr std::string_view kWithout[] = {"token_embd.weight", "output.weight"};
  checkpoint.add_all(file, kWithout, parts);
  return checkpoint;
}

class DflashFolderTest : public DflashBundleTest {
 protected:
  Result<void> bundle_of(const test::HfCheckpoint& checkpoint) {
    checkpoint.write(directory_);
    return make_bundle({.target = own_.target_path(),
                        .drafter = directory_.path(),
                        .output = directory_ / "bundle.gguf",
                        .type = DType::f32});
  }
  // The bundle in memory, of which `model` has views.
  const DflashModel& converted(const test::HfCheckpoint& checkpoint) {
    const auto made = bundle_of(checkpoint);
    EXPECT_TRUE(made) << made.error().message;
    file_.emplace(GgufFile::open(directory_ / "bundle.gguf").value());
    model_ = read_dflash(*file_).value();
    return model_;
  }
  // Logits after a made-up context.
  static std::vector<float> logits_of(const DflashModel& model) {
    const auto backend = make_cpu_backend({.threads = 1});
    DflashWeights weights(*backend, model, 64);
    const KvCache cache = weights.make_cache();
    weights.store_context(cache, 0, made_up_rows(kDim, 0, 20));
    const std::uint32_t last = 7;
    return testing::read_matrix(
        *backend,
        weights.logits(cache, {.context_first = 0, .first = 20, .tokens = std::span(&last, 1)}));
  }

  test::HfCheckpoint checkpoint = checkpoint_of(own_.file(), own_.model());

 private:
  std::optional<GgufFile> file_;
  DflashModel model_;
};

TEST_P(DflashFolderTest, FolderGivesTheBundleOfTheFile) {
  const auto made = bundle_of(checkpoint);
  ASSERT_TRUE(made) << made.error().message;
  const GgufFile file = GgufFile::open(directory_ / "bundle.gguf").value();
  const DflashModel model = read_dflash(file).value();
  EXPECT_EQ(model.config.block_size, own_.model().config.block_size);
  EXPECT_EQ(model.config.mask_token, own_.model().config.mask_token);
  EXPECT_EQ(model.fusion.states, own_.model().fusion.states);
  EXPECT_EQ(file.get_i32s(kDflashWindows).value(), own_.file().get_i32s(kDflashWindows).value());
  for (const GgufTensor& tensor : own_.file().tensors()) {
    if (tensor.name == "output.weight") continue;  // the folder's is the target's
    const GgufTensor* const same = file.find_tensor(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(same->bytes, tensor.bytes)) << tensor.name;
  }
  for (const auto& [key, kind] : {std::pair("markov_rank", "DSpark"),
                                  {"sample_from_anchor", "DSpark"},
                                  {"conv_kernel_size", "DFlash2"}}) {
    checkpoint.config[key] = 1;
    EXPECT_TRUE(fails_with(bundle_of(checkpoint), Errc::unsupported, key));
    EXPECT_TRUE(fails_with(bundle_of(checkpoint), Errc::unsupported, kind));
    checkpoint.config.erase(key);
  }
  checkpoint.config["dflash_config"]["target_layer_ids"] = {0, 99};
  EXPECT_TRUE(fails_with(bundle_of(checkpoint), Errc::bad_file, "layer 100"));
  checkpoint.config["dflash_config"].erase("mask_token_id");
  EXPECT_TRUE(fails_with(bundle_of(checkpoint), Errc::bad_file, "mask_token_id"));
}

TEST_P(DflashFolderTest, SpeculatorsKeepTheirChosenTokens) {
  const std::uint32_t vocabulary = own_.model().config.vocabulary_count;
  const Tokens tokens{9, 4, 200, 31};  // rows are in any order
  std::vector<float> rows(tokens.size() * kDim);
  std::iota(rows.begin(), rows.end(), 0.0f);
  checkpoint.add("lm_head.weight", {tokens.size(), kDim}, rows);
  Bytes differences(tokens.size() * sizeof(std::int64_t));
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    store_le(&differences[row * sizeof(std::int64_t)],
             std::int64_t{tokens[row]} - static_cast<std::int64_t>(row));
  }
  checkpoint.tensors["d2t"] = {"I64", {tokens.size()}, differences};
  checkpoint.tensors["t2d"] = {"BOOL", {vocabulary}, Bytes(vocabulary)};
  json& config = checkpoint.config;
  const json layers = config;
  config = {{"architectures", {"DFlashDraftModel"}},
            {"block_size", layers["block_size"]},
            {"is_causal", layers["is_causal"]},
            {"mask_token_id", layers["dflash_config"]["mask_token_id"]},
            {"draft_vocab_size", tokens.size()},
            {"projector_type", "dflash"},
            {"gru_hidden_dim", 1024},
            {"aux_hidden_state_layer_ids", own_.model().fusion.states},
            {"transformer_layer_config", layers}};
  config["transformer_layer_config"].erase("dflash_config");
  const DflashModel& model = converted(checkpoint);
  EXPECT_EQ(model.config.draft_tokens, (Tokens{4, 9, 31, 200}));
  EXPECT_EQ(model.config.mask_token, own_.model().config.mask_token);
  EXPECT_EQ(model.fusion.states, own_.model().fusion.states);
  std::vector<float> head(rows.size());
  dequantize_row(DType::f32, model.tensors.output->bytes, head);
  EXPECT_TRUE(std::ranges::equal(std::span(head).first(kDim), std::span(rows).subspan(kDim, kDim)));
  config["projector_type"] = "domino";
  EXPECT_TRUE(fails_with(bundle_of(checkpoint), Errc::unsupported, "Domino"));
}

TEST_P(DflashFolderTest, ScalesAndCapsLogits) {
  constexpr float kScale = 0.5f;
  constexpr float kCap = 2.0f;
  std::vector<float> expected = logits_of(converted(checkpoint));
  for (float& value : expected) value = kCap * std::tanh(kScale * value / kCap);
  checkpoint.config["dflash_config"]["output_multiplier"] = kScale;
  checkpoint.config["final_logit_softcapping"] = kCap;
  testing::expect_close(logits_of(converted(checkpoint)), expected, 1e-5);
  checkpoint.config["final_logit_softcapping"] = -1.0;
  EXPECT_TRUE(fails_with(bundle_of(checkpoint), Errc::bad_file, "soft cap"));
}

TEST_P(DflashFolderTest, ScalesEmbeddings) {
  const std::vector<float> plain = logits_of(converted(checkpoint));
  checkpoint.config["dflash_config"]["input_embedding_scale"] = 1.0;
  EXPECT_EQ(logits_of(converted(checkpoint)), plain);
  checkpoint.config["dflash_config"]["input_embedding_scale"] = 8.0;
  EXPECT_NE(logits_of(converted(checkpoint)), plain);
}

// JetSpec's drafters are DFlash's with another mask.
TEST_P(DflashFolderTest, MasksOfABlockFollowItsKeysElseItsWindows) {
  const bool has_windows = GetParam() == "dflash-swa";
  checkpoint.config.erase("is_causal");
  EXPECT_FALSE(converted(checkpoint).config.causal);
  EXPECT_TRUE(converted(checkpoint).config.causal_windows);
  const std::vector<float> inferred = logits_of(converted(checkpoint));
  checkpoint.config["dflash_config"]["causal_head"] = false;
  EXPECT_EQ(logits_of(converted(checkpoint)) != inferred, has_windows);
  checkpoint.config["dflash_config"]["causal_head"] = true;
  EXPECT_TRUE(converted(checkpoint).config.causal);
  EXPECT_NE(logits_of(converted(checkpoint)), inferred);
}

INSTANTIATE_TEST_SUITE_P(Drafters, DflashBundleTest,
                         ::testing::ValuesIn(testing::kBlockDrafterNames));
INSTANTIATE_TEST_SUITE_P(Drafters, DflashFolderTest,
                         ::testing::ValuesIn(testing::kBlockDrafterNames));

}  // namespace
}  // namespace edgedraft
