// Assistants in the layout of the published checkpoints.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "shared/drafting/kinds.h"
#include "tests/model/hf_checkpoint.h"
#include "tests/support/assistant_bundle.h"
#include "tests/support/expect.h"

namespace edgedraft {
namespace {

using nlohmann::json;
using testing::AssistantBundle;

json config_of(const AssistantModel& model) {
  const DecoderConfig& blocks = model.blocks;
  json types;
  for (const LayerPlan& plan : blocks.layers) {
    types.push_back(plan.window > 0 ? "sliding_attention" : "full_attention");
  }
  const AssistantMemory& windowed = model.memories[0];
  const AssistantMemory& full = model.memories[1];
  const json rope = {
      {"full_attention",
       {{"rope_type", "proportional"},
        {"rope_theta", blocks.rope.theta},
        {"partial_rotary_factor", 0.25}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", blocks.window_rope.theta}}}};
  const json text = {{"hidden_size", model.dim()},
                     {"num_hidden_layers", blocks.layer_count},
                     {"num_attention_heads", windowed.heads.query_heads},
                     {"num_key_value_heads", windowed.heads.kv_heads},
                     {"num_global_key_value_heads", full.heads.kv_heads},
                     {"num_kv_shared_layers", blocks.layer_count},
                     {"head_dim", windowed.heads.head_dim},
                     {"global_head_dim", full.heads.head_dim},
                     {"intermediate_size", blocks.layers[0].shape.ffn_dim},
                     {"hidden_size_per_layer_input", 0},
                     {"hidden_activation", "gelu_pytorch_tanh"},
                     {"attention_k_eq_v", true},
                     {"sliding_window", windowed.window},
                     {"layer_types", types},
                     {"rope_parameters", rope},
                     {"rms_norm_eps", blocks.layer.rms_epsilon},
                     {"max_position_embeddings", blocks.context_length},
                     {"vocab_size", model.sizes.vocabulary_count}};
  return {{"architectures", {"Gemma4AssistantForCausalLM"}},
          {"backbone_hidden_size", model.target_dim},
          {"text_config", text}};
}

test::HfCheckpoint checkpoint_of(const GgufFile& file, const AssistantModel& model) {
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"nextn.", ""},
      {"token_embd", "model.embed_tokens"},
      {"output_norm", "model.norm"},
      {"blk.", "model.layers."},
      {"attn_q_norm", "self_attn.q_norm"},
      {"attn_q.", "self_attn.q_proj."},
      {"attn_output.", "self_attn.o_proj."},
      {"attn_norm", "input_layernorm"},
      {"post_attention_norm", "post_attention_layernorm"},
      {"post_ffw_norm", "post_feedforward_layernorm"},
      {"ffn_norm", "pre_feedforward_layernorm"},
      {"ffn_gate.", "mlp.gate_proj."},
      {"ffn_up.", "mlp.up_proj."},
      {"ffn_down.", "mlp.down_proj."},
      {"layer_output_scale.weight", "layer_scalar"}};
  test::HfCheckpoint checkpoint{.config = config_of(model), .tensors = {}};
  constexpr std::string_view kWithout[] = {"rope_freqs.weight"};
  checkpoint.add_all(file, kWithout, parts);
  return checkpoint;
}

class AssistantFolderTest : public ::testing::TestWithParam<std::string> {
 protected:
  Result<void> convert(const test::HfCheckpoint& checkpoint) {
    checkpoint.write(directory_);
    return make_bundle({.target = bundle_.target_path(),
                        .drafter = directory_.path(),
                        .output = directory_ / "bundle.gguf",
                        .type = DType::f32});
  }
  test::HfCheckpoint checkpoint() const {
    return checkpoint_of(GgufFile::open(bundle_.assistant_path()).value(), bundle_.model());
  }

  AssistantBundle bundle_{GetParam()};
  test::TemporaryDirectory directory_;
};

TEST_P(AssistantFolderTest, FolderGivesTheBundleOfTheFile) {
  const auto made = convert(checkpoint());
  ASSERT_TRUE(made) << made.error().message;
  const GgufFile file = GgufFile::open(directory_ / "bundle.gguf").value();
  const AssistantModel model = read_assistant(file).value();
  EXPECT_EQ(model.blocks.layers, bundle_.model().blocks.layers);
  EXPECT_EQ(model.blocks.window_rope.theta, bundle_.model().blocks.window_rope.theta);
  EXPECT_EQ(model.scale_groups(), bundle_.model().scale_groups());
  EXPECT_EQ(file.tensors().size(), bundle_.file().tensors().size());
  for (const GgufTensor& tensor : bundle_.file().tensors()) {
    const GgufTensor* const same = file.find_tensor(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(same->bytes, tensor.bytes)) << tensor.name;
  }
}

// The E2B and E4B assistants find likely rows of the head by clusters of tokens.
TEST_P(AssistantFolderTest, AssistantsWithClustersOfTokensUseTheWholeHead) {
  test::HfCheckpoint clustered = checkpoint();
  const AssistantModel& model = bundle_.model();
  clustered.config["use_ordered_embeddings"] = true;
  clustered.config["num_centroids"] = 8;
  clustered.add("masked_embedding.centroids.weight", {8, model.dim()},
                std::vector<float>(8 * std::size_t{model.dim()}));
  const std::uint64_t vocabulary = model.sizes.vocabulary_count;
  clustered.tensors["masked_embedding.token_ordering"] = {
      "I64", {vocabulary}, Bytes(8 * vocabulary)};
  const auto made = convert(clustered);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(read_assistant(GgufFile::open(directory_ / "bundle.gguf").value())->output.rows,
            vocabulary);
}

TEST_P(AssistantFolderTest, RefusesFoldersThatItWouldDraftWronglyFrom) {
  const auto expect_refused = [&](const test::HfCheckpoint& changed, Errc code,
                                  const std::string& named) {
    EXPECT_TRUE(fails_with(convert(changed), code, named));
    EXPECT_FALSE(std::filesystem::exists(directory_ / "bundle.gguf"));
  };
  for (const char* name : {"model.layers.0.self_attn.q_proj.weight", "model.norm.weight"}) {
    test::HfCheckpoint lacking = checkpoint();
    lacking.tensors.erase(name);
    expect_refused(lacking, Errc::bad_file, name);
  }
  test::HfCheckpoint other = checkpoint();
  other.tensors["model.layers.0.self_attn.sinks"] = other.tensors["model.norm.weight"];
  expect_refused(other, Errc::unsupported, "self_attn.sinks");
  other = checkpoint();
  other.config["backbone_hidden_size"] = bundle_.model().target_dim + 1;
  expect_refused(other, Errc::mismatch, "made for a target of width");
  other.config.erase("backbone_hidden_size");
  expect_refused(other, Errc::bad_file, "backbone_hidden_size");
  other = checkpoint();
  other.config["text_config"]["sliding_window"] = 25;
  expect_refused(other, Errc::mismatch, "within 25 positions");
  other.config["text_config"]["vocab_size"] = 17;
  expect_refused(other, Errc::mismatch, "vocab_size");
}

INSTANTIATE_TEST_SUITE_P(Assistants, AssistantFolderTest,
                         ::testing::ValuesIn(testing::kAssistants));

}  // namespace
}  // namespace edgedraft
