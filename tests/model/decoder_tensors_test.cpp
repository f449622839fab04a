#include "shared/model/decoder_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "shared/model/gguf.h"
#include "shared/model/tensor_shapes.h"
#include "tests/model/raw_decoder.h"

namespace edgedraft {
namespace {

using test::RawGguf;

// Reads a whole model and returns the error of the step that fails.
std::optional<Error> error_of(const RawGguf& raw) {
  const Bytes bytes = raw.bytes();
  const auto file = GgufFile::parse(bytes);
  if (!file) return file.error();
  const auto config = read_decoder_config(*file);
  if (!config) return config.error();
  const auto tensors = read_decoder_tensors(*file, *config);
  if (!tensors) return tensors.error();
  return std::nullopt;
}

void expect_error(const RawGguf& raw, Errc code, const std::string& named) {
  const auto error = error_of(raw);
  ASSERT_TRUE(error) << named;
  EXPECT_EQ(error->code, code) << error->message;
  EXPECT_NE(error->message.find(named), std::string::npos) << error->message;
}

void remove_key(RawGguf& raw, const std::string& key) {
  std::erase_if(raw.values, [&](const auto& value) { return value.first == key; });
}

// Adds divisors for the two frequencies.
void add_divisors(RawGguf& raw, float first, float second) {
  test::add_raw_tensor(raw, "rope_freqs.weight", {2});
  store_le(&raw.data[raw.tensors.back().offset], first);
  store_le(&raw.data[raw.tensors.back().offset + 4], second);
}

std::vector<float> divisors_of(const RawGguf& raw) {
  const Bytes bytes = raw.bytes();
  return read_decoder_config(GgufFile::parse(bytes).value()).value().rope.frequency_divisors;
}

void replace_u32(RawGguf& raw, const std::string& key, std::uint32_t value) {
  remove_key(raw, key);
  raw.add_u32(key, value);
}

TEST(DecoderTensorsTest, ReadsConfigurationAndTensors) {
  const Bytes bytes = test::raw_decoder().bytes();
  const auto file = GgufFile::parse(bytes);
  ASSERT_TRUE(file);
  const auto config = read_decoder_config(*file).value();
  EXPECT_EQ(config.vocabulary_count, 5u);
  EXPECT_EQ(config.layer_count, 2u);
  EXPECT_EQ(config.context_length, 64u);
  EXPECT_EQ(config.layer.heads, (HeadShape{2, 1, 4}));
  EXPECT_EQ(config.layer.ffn_dim, 12u);
  EXPECT_EQ(config.rope.theta, 500.0f);
  EXPECT_EQ(config.rope.style, RopeStyle::pairs);
  EXPECT_TRUE(config.rope.frequency_divisors.empty());
  const auto tensors = read_decoder_tensors(*file, config).value();
  EXPECT_FALSE(tensors.output) << "the head is tied";
  ASSERT_EQ(tensors.layers.size(), 2u);
  const TensorView& down = tensors.layers[1].ffn_down;
  EXPECT_EQ(down.rows, 8u);
  EXPECT_EQ(down.cols, 12u);
  EXPECT_EQ(down.bytes.data(), file->find_tensor("blk.1.ffn_down.weight")->bytes.data());
  EXPECT_FALSE(tensors.layers[0].attn_q_bias.present());
}

TEST(DecoderTensorsTest, RequiresEveryTensor) {
  const RawGguf whole = test::raw_decoder();
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    RawGguf raw = whole;
    raw.tensors.erase(raw.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    expect_error(raw, Errc::bad_file, whole.tensors[i].name);
  }
}

TEST(DecoderTensorsTest, ChecksEveryShape) {
  const RawGguf whole = test::raw_decoder();
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    if (whole.tensors[i].name == "token_embd.weight") continue;  // defines the vocabulary size
    RawGguf raw = whole;
    raw.tensors[i].dims.back() -= 1;
    expect_error(raw, Errc::bad_file, whole.tensors[i].name);
  }
  RawGguf raw = whole;
  raw.tensors[0].dims = {4, 10};
  expect_error(raw, Errc::bad_file, "token_embd.weight");
}

TEST(DecoderTensorsTest, RequiresEverySize) {
  for (const char* key :
       {"block_count", "context_length", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    RawGguf raw = test::raw_decoder();
    remove_key(raw, std::string("llama.") + key);
    expect_error(raw, Errc::bad_file, key);
  }
}

TEST(DecoderTensorsTest, RefusesImpossibleSizes) {
  for (const char* key :
       {"block_count", "context_length", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.head_count_kv", "attention.key_length"}) {
    for (const std::uint32_t value : {0u, 3u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
      const bool context = std::string(key) == "context_length";
      if (context && value != 0u && value != 0xFFFFFFFFu) continue;  // any other is valid
      RawGguf raw = test::raw_decoder();
      replace_u32(raw, std::string("llama.") + key, value);
      EXPECT_TRUE(error_of(raw)) << key << " = " << value;
    }
  }
}

TEST(DecoderTensorsTest, RefusesMoreLayersThanDeclared) {
  RawGguf raw = test::raw_decoder();
  replace_u32(raw, "llama.block_count", 1);
  expect_error(raw, Errc::bad_file, "block_count");
}

TEST(DecoderTensorsTest, ReadsScaledFrequencies) {
  RawGguf raw = test::raw_decoder();
  raw.add_string("llama.rope.scaling.type", "linear");
  raw.add_f32("llama.rope.scaling.factor", 4.0f);
  EXPECT_EQ(divisors_of(raw), (std::vector<float>{4, 4}));

  raw = test::raw_decoder();
  add_divisors(raw, 1.0f, 8.0f);
  EXPECT_EQ(divisors_of(raw), (std::vector<float>{1, 8}));

  // As in llama.cpp, a factor of 0 disables scaling.
  raw = test::raw_decoder();
  raw.add_string("llama.rope.scaling.type", "linear");
  raw.add_f32("llama.rope.scaling.factor", 0.0f);
  EXPECT_EQ(divisors_of(raw), std::vector<float>());
}

TEST(DecoderTensorsTest, CombinesLegacyScaleWithFrequencyTensor) {
  RawGguf raw = test::raw_decoder();
  raw.add_f32("llama.rope.scale_linear", 2.0f);  // no type
  EXPECT_EQ(divisors_of(raw), (std::vector<float>{2, 2}));
  add_divisors(raw, 1.0f, 8.0f);
  EXPECT_EQ(divisors_of(raw), (std::vector<float>{2, 16}));
  raw.add_string("llama.rope.scaling.type", "none");
  EXPECT_EQ(divisors_of(raw), (std::vector<float>{1, 8}));
}

// llama.cpp's constants: frequencies that turn less than once in the original context are divided,
// those that turn more than 32 times stay.
TEST(DecoderTensorsTest, ReadsYarn) {
  RawGguf raw = test::raw_decoder();
  raw.add_string("llama.rope.scaling.type", "yarn");
  raw.add_f32("llama.rope.scaling.factor", 4.0f);
  expect_error(raw, Errc::bad_file, "original_context_length");
  raw.add_u32("llama.rope.scaling.original_context_length", 128);
  const Bytes bytes = raw.bytes();
  const RopeConfig rope = read_decoder_config(GgufFile::parse(bytes).value()).value().rope;
  EXPECT_EQ(rope.frequency_divisors, (std::vector<float>{1, 4}));
  EXPECT_FLOAT_EQ(rope.magnitude, 1.0f + 0.1f * std::log(4.0f));
}

TEST(DecoderTensorsTest, ReadsRotationOfAPartOfAHead) {
  RawGguf raw = test::raw_decoder();
  raw.add_u32("llama.rope.dimension_count", 2);
  raw.add_f32("llama.rope.scaling.attn_factor", 1.25f);
  const Bytes bytes = raw.bytes();
  const RopeConfig rope = read_decoder_config(GgufFile::parse(bytes).value()).value().rope;
  EXPECT_EQ(rope.rotated, 2u);
  EXPECT_EQ(rope.magnitude, 1.25f);
  for (const std::uint32_t impossible : {3u, 6u}) {
    replace_u32(raw, "llama.rope.dimension_count", impossible);
    expect_error(raw, Errc::unsupported, "rope.dimension_count");
  }
}

TEST(DecoderTensorsTest, RefusesUnknownScaling) {
  RawGguf raw = test::raw_decoder();
  raw.add_string("llama.rope.scaling.type", "dynamic");
  expect_error(raw, Errc::unsupported, "dynamic");
}

TEST(DecoderTensorsTest, RefusesInvalidRopeValues) {
  for (const float value : {-1.0f, NAN, INFINITY}) {
    for (const std::string key : {"rope.freq_base", "rope.scaling.factor"}) {
      RawGguf raw = test::raw_decoder();
      remove_key(raw, "llama." + key);
      raw.add_f32("llama." + key, value);
      expect_error(raw, Errc::bad_file, key);
    }
    RawGguf raw = test::raw_decoder();
    add_divisors(raw, 1.0f, value);
    expect_error(raw, Errc::bad_file, "rope_freqs.weight");
  }
}

TEST(DecoderTensorsTest, RefusesOtherArchitectures) {
  RawGguf raw = test::raw_decoder();
  remove_key(raw, "general.architecture");
  raw.add_string("general.architecture", "gemma");
  expect_error(raw, Errc::unsupported, "'gemma' is not supported. Known are llama, ");
}

TEST(DecoderTensorsTest, RefusesTokenizerOfOtherSize) {
  RawGguf raw = test::raw_decoder();
  raw.add_strings("tokenizer.ggml.tokens", {"a", "b"});
  expect_error(raw, Errc::bad_file, "2 entries");
}

TEST(DecoderTensorsTest, ReadsQwen2BiasesAndRefusesOthers) {
  RawGguf raw = test::raw_decoder();
  test::add_raw_tensor(raw, "blk.0.attn_k.bias", {4});
  const Bytes bytes = raw.bytes();
  const auto file = GgufFile::parse(bytes);
  const auto config = read_decoder_config(*file);
  ASSERT_TRUE(config);
  const auto tensors = read_decoder_tensors(*file, *config);
  ASSERT_TRUE(tensors);
  EXPECT_EQ(tensors->layers[0].attn_k_bias.cols, 4u);
  test::add_raw_tensor(raw, "blk.0.attn_output.bias", {8});
  expect_error(raw, Errc::unsupported, "blk.0.attn_output.bias");
}

TEST(DecoderTensorsTest, RefusesUnusedTensors) {
  for (const char* name : {"blk.1.attn_q_norm.weight", "blk.0.ffn_gate.bias",
                           "position_embd.weight", "blk.", "blk.1", "blk.1."}) {
    RawGguf raw = test::raw_decoder();
    test::add_raw_tensor(raw, name, {8});
    expect_error(raw, Errc::unsupported, name);
  }
}

TEST(DecoderTensorsTest, NamesUnsupportedModelKind) {
  RawGguf raw = test::raw_decoder();
  raw.add_u32("llama.expert_count", 8);
  expect_error(raw, Errc::unsupported, "mixtures of experts");
}

// A key after "llama.", and its value.
using Setting = std::pair<std::string, std::variant<std::uint32_t, float, bool>>;

RawGguf decoder_with(const Setting& setting) {
  RawGguf raw = test::raw_decoder();
  const std::string key = "llama." + setting.first;
  if (const auto* count = std::get_if<std::uint32_t>(&setting.second)) raw.add_u32(key, *count);
  if (const auto* number = std::get_if<float>(&setting.second)) raw.add_f32(key, *number);
  if (const auto* flag = std::get_if<bool>(&setting.second)) raw.add_bool(key, *flag);
  return raw;
}

// The context has 64 positions; heads have 4 dimensions.
TEST(DecoderTensorsTest, NamesKeyOfOtherComputation) {
  for (const Setting& setting :
       {Setting("attention.sliding_window", 1u), Setting("attention.sliding_window", 63u),
        Setting("attention.sliding_window_pattern", 2u), Setting("attention.causal", false),
        Setting("attn_logit_softcapping", 50.0f), Setting("final_logit_softcapping", 30.0f),
        Setting("logit_scale", 0.0625f), Setting("logit_scale", NAN),
        Setting("embedding_scale", 12.0f), Setting("residual_scale", 0.25f),
        Setting("residual_scale", -1.0f), Setting("attention.scale", 1.0f),
        Setting("attention.scale", 0.499f)}) {
    expect_error(decoder_with(setting), Errc::unsupported, "llama." + setting.first);
  }
}

TEST(DecoderTensorsTest, AcceptsNeutralSettings) {
  for (const Setting& setting :
       {Setting("attention.sliding_window", 0u), Setting("attention.sliding_window", 64u),
        Setting("attention.sliding_window", 131072u), Setting("attention.causal", true),
        Setting("attn_logit_softcapping", 0.0f), Setting("final_logit_softcapping", 0.0f),
        Setting("logit_scale", 0.0f), Setting("logit_scale", 1.0f),
        Setting("embedding_scale", 1.0f), Setting("residual_scale", 1.0f),
        Setting("rope.scaling.attn_factor", 1.0f), Setting("attention.scale", 0.0f),
        Setting("attention.scale", 0.5f)}) {
    const auto error = error_of(decoder_with(setting));
    EXPECT_FALSE(error) << setting.first << ": " << error->message;
  }
}

TEST(DecoderTensorsTest, AcceptsHalfButNotQuantizedNorms) {
  RawGguf raw = test::raw_decoder();
  raw.tensors[1].type = 1;  // output_norm.weight as f16
  EXPECT_FALSE(error_of(raw));

  test::add_raw_tensor(raw, "norm", {32});
  raw.tensors.back().type = 8;  // q8_0
  const Bytes bytes = raw.bytes();
  const auto file = GgufFile::parse(bytes);
  ASSERT_TRUE(file);
  TensorReader reader(*file, "");
  TensorView view;
  reader.vector("norm", 32, view);
  ASSERT_TRUE(reader.error());
  EXPECT_EQ(reader.error()->code, Errc::unsupported);
}

}  // namespace
}  // namespace edgedraft
