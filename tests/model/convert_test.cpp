#include "shared/model/convert/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "shared/base/json_shape.h"
#include "shared/base/text_file.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/fingerprint.h"
#include "shared/model/gguf.h"
#include "tests/model/convert_fixture.h"
#include "tests/model/hf_directory.h"
#include "tests/support/expect.h"

namespace edgedraft {
namespace {

using test::HfDirectory;

class ConvertTest : public test::ConvertFixture {};

std::vector<float> row_of(const GgufFile& file, const std::string& name, std::uint64_t row) {
  const GgufTensor* tensor = file.find_tensor(name);
  const std::uint64_t bytes = *row_bytes(tensor->type, tensor->cols());
  std::vector<float> numbers(tensor->cols());
  dequantize_row(tensor->type, tensor->bytes.subspan(row * bytes, bytes), numbers);
  return numbers;
}

std::vector<float> source_row(const std::string& name, std::uint64_t row, std::uint64_t cols) {
  std::vector<float> numbers(cols);
  for (std::uint64_t i = 0; i < cols; ++i) numbers[i] = HfDirectory::value_at(name, row * cols + i);
  return numbers;
}

TEST_F(ConvertTest, WritesStandardMetadata) {
  const GgufFile file = converted({}, DType::f32);
  const auto config = read_decoder_config(file);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->vocabulary_count, 300u);
  EXPECT_EQ(config->layer_count, 1u);
  EXPECT_EQ(config->context_length, 128u);
  EXPECT_EQ(config->layer.heads, (HeadShape{4, 2, 8}));
  EXPECT_EQ(config->layer.ffn_dim, 48u);
  EXPECT_EQ(config->layer.rms_epsilon, 1e-6f);
  EXPECT_EQ(config->rope.theta, 5000.0f);
  EXPECT_TRUE(read_decoder_tensors(file, *config));
  EXPECT_EQ(*file.get_u32("general.file_type"), 0u);
  EXPECT_EQ(*file.get_u32("llama.rope.dimension_count"), 8u);
  EXPECT_EQ(*file.get_u32("llama.vocab_size"), 300u);
}

// Within a head of 8, pairs order interleaves the halves: 0 4 1 5 2 6 3 7.
TEST_F(ConvertTest, PutsLlamaQueriesAndKeysIntoPairsOrder) {
  const GgufFile file = converted({}, DType::f32);
  const std::string attention = "model.layers.0.self_attn.";
  const std::uint64_t order[] = {0, 4, 1, 5, 2, 6, 3, 7};
  for (std::uint64_t row = 0; row < 32; ++row) {
    const std::uint64_t from = row / 8 * 8 + order[row % 8];
    EXPECT_EQ(row_of(file, "blk.0.attn_q.weight", row),
              source_row(attention + "q_proj.weight", from, 32));
    if (row >= 16) continue;
    EXPECT_EQ(row_of(file, "blk.0.attn_k.weight", row),
              source_row(attention + "k_proj.weight", from, 32));
    EXPECT_EQ(row_of(file, "blk.0.attn_v.weight", row),
              source_row(attention + "v_proj.weight", row, 32));
  }
}

TEST_F(ConvertTest, LeavesQwen2InHalvesOrderAndKeepsItsBiases) {
  HfDirectory source;
  source.config["architectures"] = {"Qwen2ForCausalLM"};
  for (const auto& [name, count] :
       {std::pair("q_proj", 32u), std::pair("k_proj", 16u), std::pair("v_proj", 16u)}) {
    source.tensors[std::string("model.layers.0.self_attn.") + name + ".bias"] = {count};
  }
  const GgufFile file = converted(source, DType::f32);
  const auto config = read_decoder_config(file);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->rope.style, RopeStyle::halves);
  const auto tensors = read_decoder_tensors(file, *config);
  ASSERT_TRUE(tensors);
  EXPECT_TRUE(tensors->layers[0].attn_k_bias.present());
  EXPECT_EQ(row_of(file, "blk.0.attn_q.weight", 1),
            source_row("model.layers.0.self_attn.q_proj.weight", 1, 32));
}

class TypeTest : public ConvertTest, public ::testing::WithParamInterface<DType> {};

TEST_P(TypeTest, StoresMatricesInTypeAndVectorsInF32) {
  const GgufFile file = converted({}, GetParam());
  EXPECT_EQ(file.find_tensor("blk.0.ffn_up.weight")->type, GetParam());
  EXPECT_EQ(file.find_tensor("token_embd.weight")->type, GetParam());
  EXPECT_EQ(file.find_tensor("output_norm.weight")->type, DType::f32);
  EXPECT_EQ(row_of(file, "output_norm.weight", 0), source_row("model.norm.weight", 0, 32));
  // 48 columns are not a whole number of blocks.
  const DType down = traits(GetParam()).block_count > 1 ? DType::f16 : GetParam();
  EXPECT_EQ(file.find_tensor("blk.0.ffn_down.weight")->type, down);
  const auto numbers = row_of(file, "blk.0.ffn_up.weight", 7);
  const auto source = source_row("model.layers.0.mlp.up_proj.weight", 7, 32);
  const double step = GetParam() == DType::q4_0 ? 1.0 / 15 : 0.003;  // elements lie in [-0.5, 0.5]
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(numbers[i], source[i], step);
}

INSTANTIATE_TEST_SUITE_P(Types, TypeTest,
                         ::testing::Values(DType::f32, DType::f16, DType::bf16, DType::q8_0,
                                           DType::q4_0),
                         [](const auto& type) { return std::string(traits(type.param).name); });

TEST_F(ConvertTest, ReadsHalfPrecisionCheckpoints) {
  for (const DType type : {DType::f16, DType::bf16}) {
    HfDirectory source;
    source.type = type;
    const GgufFile file = converted(source, DType::f32);
    const auto exact = source_row("model.layers.0.mlp.up_proj.weight", 7, 32);
    Bytes stored(64);
    quantize_row(type, exact, stored);
    std::vector<float> rounded(32);
    dequantize_row(type, stored, rounded);
    EXPECT_EQ(row_of(file, "blk.0.ffn_up.weight", 7), rounded) << traits(type).name;
    EXPECT_EQ(file.find_tensor("blk.0.attn_norm.weight")->type, DType::f32);
  }
}

// Width 256, ffn 384.
HfDirectory wide_directory() {
  HfDirectory source;
  source.config["hidden_size"] = 256;
  source.config["intermediate_size"] = 384;
  for (auto& [name, shape] : source.tensors) {
    for (std::uint64_t& dim : shape) {
      if (dim != 300) dim *= 8;
    }
  }
  return source;
}

class LargeBlockTest : public ConvertTest, public ::testing::WithParamInterface<DType> {};

TEST_P(LargeBlockTest, FallsBackToQ8ForNarrowRows) {
  const GgufFile file = converted(wide_directory(), GetParam());
  EXPECT_EQ(file.find_tensor("blk.0.ffn_up.weight")->type, GetParam());
  EXPECT_EQ(file.find_tensor("token_embd.weight")->type, GetParam());
  EXPECT_EQ(file.find_tensor("blk.0.ffn_down.weight")->type, DType::q8_0) << "384 columns";
  EXPECT_EQ(file.find_tensor("output.weight")->type, DType::q6_k) << "output head";
  const auto numbers = row_of(file, "blk.0.attn_v.weight", 7);
  const auto source = source_row("model.layers.0.self_attn.v_proj.weight", 7, 256);
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(numbers[i], source[i], 1.0 / 15);
}

INSTANTIATE_TEST_SUITE_P(Types, LargeBlockTest,
                         ::testing::Values(DType::q4_k, DType::q5_k, DType::q6_k),
                         [](const auto& type) { return std::string(traits(type.param).name); });

TEST_F(ConvertTest, TiedEmbeddingKeepsMoreBits) {
  HfDirectory source = wide_directory();
  source.config["tie_word_embeddings"] = true;
  source.tensors.erase("lm_head.weight");
  EXPECT_EQ(converted(source, DType::q4_0).find_tensor("token_embd.weight")->type, DType::q6_k);
  EXPECT_EQ(converted(source, DType::q8_0).find_tensor("token_embd.weight")->type, DType::q8_0);
}

TEST_F(ConvertTest, DoesNotWidenQuantizedHead) {
  converted(wide_directory(), DType::q4_k);
  const auto wider = output_ / "wider.gguf";
  ASSERT_TRUE(convert_model({.input = output_ / "m.gguf", .output = wider, .type = DType::q4_0}));
  EXPECT_EQ(GgufFile::open(wider)->find_tensor("output.weight")->type, DType::q6_k)
      << "keeps its six bits";
  EXPECT_EQ(GgufFile::open(wider)->find_tensor("token_embd.weight")->type, DType::q4_0);
}

TEST_F(ConvertTest, TensorsDecideWhetherHeadIsTied) {
  HfDirectory source;
  source.config["tie_word_embeddings"] = true;
  EXPECT_NE(converted(source, DType::f32).find_tensor("output.weight"), nullptr);
  source.tensors.erase("lm_head.weight");
  EXPECT_EQ(converted(source, DType::f32).find_tensor("output.weight"), nullptr);
}

TEST_F(ConvertTest, RequiresUntiedHead) {
  HfDirectory source;
  source.tensors.erase("lm_head.weight");
  expect_error(source, Errc::bad_file, "lm_head.weight");
}

TEST_F(ConvertTest, ReadsExplicitHeadSize) {
  HfDirectory source;
  source.config["head_dim"] = 16;
  source.tensors["model.layers.0.self_attn.q_proj.weight"] = {64, 32};
  source.tensors["model.layers.0.self_attn.k_proj.weight"] = {32, 32};
  source.tensors["model.layers.0.self_attn.v_proj.weight"] = {32, 32};
  source.tensors["model.layers.0.self_attn.o_proj.weight"] = {32, 64};
  const GgufFile file = converted(source, DType::f16);
  EXPECT_EQ(read_decoder_config(file)->layer.heads, (HeadShape{4, 2, 16}));
}

TEST_F(ConvertTest, KeepsLinearScaling) {
  HfDirectory source;
  source.config["rope_scaling"] = {{"type", "linear"}, {"factor", 2.5}};
  const GgufFile file = converted(source, DType::f32);
  EXPECT_EQ(*file.get_string("llama.rope.scaling.type"), "linear");
  EXPECT_EQ(read_decoder_config(file)->rope.frequency_divisors, std::vector<float>(4, 2.5f));
}

// theta 10000 and heads of 8: wavelengths 6.3, 62.8, 628 and 6283 positions. The first is below
// 64 / 4 and stays; the last two are above 64 / 1 and are scaled by the full factor. The second:
// 64 / 62.83 = 1.0186 turns, a blend of 0.0186 / 3 = 0.0062, 1 / (0.9938 / 8 + 0.0062) = 7.667.
TEST_F(ConvertTest, ConvertsLlama3ScalingToDivisors) {
  HfDirectory source;
  source.config["rope_theta"] = 10000.0;
  source.config["rope_scaling"] = {{"rope_type", "llama3"},
                                   {"factor", 8.0},
                                   {"low_freq_factor", 1.0},
                                   {"high_freq_factor", 4.0},
                                   {"original_max_position_embeddings", 64}};
  const GgufFile file = converted(source, DType::f32);
  const auto divisors = read_decoder_config(file)->rope.frequency_divisors;
  ASSERT_EQ(divisors.size(), 4u);
  EXPECT_EQ(divisors[0], 1.0f);
  EXPECT_NEAR(divisors[1], 7.667f, 0.001f);
  EXPECT_EQ(divisors[2], 8.0f);
  EXPECT_EQ(divisors[3], 8.0f);
}

TEST_F(ConvertTest, ReadsRopeParametersOfNewerFiles) {
  HfDirectory source;
  source.config.erase("rope_theta");
  source.config["rope_parameters"] = {{"rope_theta", 700.0}, {"rope_type", "default"}};
  EXPECT_EQ(read_decoder_config(converted(source, DType::f32))->rope.theta, 700.0f);
}

TEST_F(ConvertTest, ReadsRopeParametersBesideOlderKeys) {
  HfDirectory source;
  source.config["rope_theta"] = 1e6;
  source.config["rope_parameters"] = {{"rope_type", "default"}};
  EXPECT_EQ(read_decoder_config(converted(source, DType::f32))->rope.theta, 1e6f);

  source = {};
  source.config.erase("rope_theta");
  source.config["rope_parameters"] = {{"rope_theta", 500000.0}};
  source.config["rope_scaling"] = {{"rope_type", "llama3"},
                                   {"factor", 8.0},
                                   {"low_freq_factor", 1.0},
                                   {"high_freq_factor", 4.0},
                                   {"original_max_position_embeddings", 64}};
  const RopeConfig rope = read_decoder_config(converted(source, DType::f32))->rope;
  EXPECT_EQ(rope.theta, 500000.0f);
  ASSERT_EQ(rope.frequency_divisors.size(), 4u);
  EXPECT_EQ(rope.frequency_divisors[0], 1.0f);
  EXPECT_EQ(rope.frequency_divisors[3], 8.0f);
}

TEST_F(ConvertTest, RefusesPartiallyRotatedHeads) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    HfDirectory source;
    source.config[key] = {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
    expect_error(source, Errc::unsupported, "partial rotary");
  }
}

TEST_F(ConvertTest, RefusesUnsupportedModels) {
  const std::pair<nlohmann::json, const char*> changes[] = {
      {{{"architectures", {"GemmaForCausalLM"}}}, "GemmaForCausalLM"},
      {{{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}}}, "dynamic"},
      {{{"use_sliding_window", true}}, "sliding-window"},
      {{{"hidden_act", "gelu"}}, "gelu"},
      {{{"partial_rotary_factor", 0.5}}, "partial rotary"},
  };
  for (const auto& [change, named] : changes) {
    HfDirectory source;
    source.config.update(change);
    expect_error(source, Errc::unsupported, named);
  }
  HfDirectory source;
  source.tensors["model.layers.0.mlp.up_proj.bias"] = {48};
  expect_error(source, Errc::unsupported, "up_proj.bias");
  source = {};
  source.tensors["model.layers.1.input_layernorm.weight"] = {32};
  expect_error(source, Errc::unsupported, "model.layers.1");
}

TEST_F(ConvertTest, RefusesInvalidConfigurations) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                          "intermediate_size", "vocab_size", "max_position_embeddings"}) {
    for (const nlohmann::json& value :
         {nlohmann::json(), nlohmann::json(0), nlohmann::json(-1), nlohmann::json(1.5),
          nlohmann::json("32"), nlohmann::json(5000000000)}) {
      HfDirectory source;
      source.config[key] = value;
      expect_error(source, Errc::bad_file, key);
    }
  }
  const std::pair<nlohmann::json, const char*> changes[] = {
      {{{"num_key_value_heads", 3}}, "3 key heads"},
      {{{"vocab_size", 4000000000}}, "vocab_size"},
      {{{"rope_theta", 1e300}}, "rope_theta"},
      {{{"rope_scaling", {{"type", "linear"}, {"factor", 1e300}}}}, "factor"},
  };
  for (const auto& [change, named] : changes) {
    HfDirectory source;
    source.config.update(change);
    expect_error(source, Errc::bad_file, named);
  }
}

// Adds a member to an object: `depth` levels of arrays inside an object.
std::string with_nested(const nlohmann::json& object, const std::string& key, std::size_t depth) {
  std::string text = object.dump();
  text.back() = ',';
  return text + "\"" + key + R"(": {"type": "default", "a": )" + std::string(depth, '[') +
         std::string(depth, ']') + "}}";
}

TEST_F(ConvertTest, RefusesNestingThatWouldOverflowTheStack) {
  constexpr std::size_t kDepth = 400'000;
  HfDirectory source;
  source.write(input_);
  input_.write("tokenizer.json", with_nested({{"model", "x"}}, "normalizer", kDepth));
  expect_input_error(Errc::bad_file, "tokenizer.json nests deeper than 256 levels");
  source.config.erase("eos_token_id");
  for (const char* key : {"rope_scaling", "eos_token_id"}) {
    input_.write("config.json", with_nested(source.config, key, kDepth));
    expect_input_error(Errc::bad_file, "config.json nests deeper than 256 levels");
  }
}

TEST_F(ConvertTest, AcceptsNestingUpToLimit) {
  constexpr std::size_t kAround = 2;  // the file's object and the member's
  HfDirectory source;
  source.config["note"] = "\"" + std::string(2 * kJsonDepthMax, '[');  // strings do not nest
  source.write(input_);
  constexpr std::size_t kDepth = kJsonDepthMax - kAround;
  input_.write("config.json", with_nested(source.config, "rope_scaling", kDepth + 1));
  expect_input_error(Errc::bad_file, "config.json nests");
  input_.write("config.json", with_nested(source.config, "rope_scaling", kDepth));
  const auto done = convert_input(DType::f32);
  EXPECT_TRUE(done) << done.error().message;
}

TEST_F(ConvertTest, NamesMissingAndMisshapenTensors) {
  for (const auto& [name, shape] : HfDirectory().tensors) {
    HfDirectory source;
    source.tensors.erase(name);
    expect_error(source, Errc::bad_file, name);
    source = {};
    source.tensors[name].front() += 1;
    expect_error(source, Errc::bad_file, name);
  }
}

TEST_F(ConvertTest, NamesMissingConfiguration) {
  expect_input_error(Errc::io, "config.json");
}

TEST_F(ConvertTest, ReportsReasonForUnreadableInput) {
  std::filesystem::create_symlink("loop", input_ / "loop");
  const auto done = convert_model({.input = input_ / "loop", .output = output_ / "m.gguf"});
  EXPECT_TRUE(fails_with(done, Errc::io, "Too many levels"));
}

TEST_F(ConvertTest, ConvertsGgufFileToOtherType) {
  const GgufFile first = converted({}, DType::f32);
  const auto path = output_ / "q8.gguf";
  ASSERT_TRUE(convert_model({.input = output_ / "m.gguf", .output = path, .type = DType::q8_0}));
  const auto second = GgufFile::open(path);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->find_tensor("blk.0.attn_q.weight")->type, DType::q8_0);
  EXPECT_EQ(second->find_tensor("blk.0.attn_norm.weight")->type, DType::f32);
  EXPECT_EQ(*second->get_u32("general.file_type"), 7u);
  EXPECT_EQ(*second->get_u32("llama.block_count"), 1u);
  const auto before = row_of(first, "blk.0.attn_q.weight", 9);
  const auto after = row_of(*second, "blk.0.attn_q.weight", 9);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(before[i], after[i], 0.003);
  EXPECT_NE(model_fingerprint(first).value(), model_fingerprint(*second).value());
}

TEST_F(ConvertTest, KeepsGgufTypesByDefault) {
  const GgufFile first = converted(wide_directory(), DType::q4_k);
  const auto path = output_ / "copy.gguf";
  ASSERT_TRUE(convert_model({.input = output_ / "m.gguf", .output = path}));
  const auto second = GgufFile::open(path);
  ASSERT_TRUE(second);
  EXPECT_EQ(compute_model_fingerprint(*second), compute_model_fingerprint(first));
  EXPECT_EQ(*second->get_u32("general.file_type"), *first.get_u32("general.file_type"));
}

TEST_F(ConvertTest, CopiesAndDecodesTypesThatItDoesNotWrite) {
  converted({}, DType::q4_0);
  const auto path = output_ / "m.gguf";
  // Blocks of iq4_nl have the size of q4_0's: the type's number makes one from the other.
  const std::string name = "blk.0.attn_q.weight";
  std::string bytes = read_text_file(path, 1 << 20).value();
  const std::size_t type_at = bytes.find(name) + name.size() + 4 + 2 * 8;
  ASSERT_EQ(bytes.at(type_at), 2);
  bytes[type_at] = 20;
  std::ofstream(path, std::ios::binary) << bytes;
  const GgufFile source = GgufFile::open(path).value();
  EXPECT_EQ(source.find_tensor(name)->type, DType::iq4_nl);

  ASSERT_TRUE(convert_model({.input = path, .output = output_ / "copy.gguf"}));
  const GgufFile copy = GgufFile::open(output_ / "copy.gguf").value();
  EXPECT_EQ(copy.find_tensor(name)->type, DType::iq4_nl);
  EXPECT_TRUE(std::ranges::equal(copy.find_tensor(name)->bytes, source.find_tensor(name)->bytes));

  ASSERT_TRUE(convert_model({.input = path, .output = output_ / "f32.gguf", .type = DType::f32}));
  const GgufFile floats = GgufFile::open(output_ / "f32.gguf").value();
  EXPECT_EQ(floats.find_tensor(name)->type, DType::f32);
  EXPECT_EQ(row_of(floats, name, 5), row_of(source, name, 5));
}

TEST_F(ConvertTest, IsDeterministic) {
  const HfDirectory source;
  source.write_tokenizer(input_);
  const Digest first = model_fingerprint(converted(source, DType::q8_0)).value();
  EXPECT_EQ(model_fingerprint(converted(source, DType::q8_0)).value(), first);
}

}  // namespace
}  // namespace edgedraft
