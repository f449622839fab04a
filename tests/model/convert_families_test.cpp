#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "shared/model/convert/convert.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/families/family.h"
#include "shared/model/gguf.h"
#include "shared/model/gguf_writer.h"
#include "tests/model/hf_family.h"
#include "tests/support/expect.h"
#include "tests/support/family_files.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft {
namespace {

using test::HfCheckpoint;
using test::HfVariant;
using test::TemporaryDirectory;

std::vector<float> numbers_of(const GgufTensor& tensor) {
  std::vector<float> numbers(tensor.rows() * tensor.cols());
  const std::uint64_t bytes = *row_bytes(tensor.type, tensor.cols());
  for (std::uint64_t r = 0; r < tensor.rows(); ++r) {
    dequantize_row(tensor.type, tensor.bytes.subspan(r * bytes, bytes),
                   std::span(numbers).subspan(r * tensor.cols(), tensor.cols()));
  }
  return numbers;
}

// The rows of each expert of `joined` are those of its gate and up.
void expect_equal_halves(const GgufFile& file, const GgufTensor& joined) {
  const std::string prefix(joined.name.substr(0, joined.name.find("ffn_")));
  const auto wanted = numbers_of(joined);
  const std::size_t size = joined.dims[0] * joined.dims[1] / 2;
  std::size_t half = 0;
  for (const char* part : {"ffn_gate_exps.weight", "ffn_up_exps.weight"}) {
    const GgufTensor* const found = file.find_tensor(prefix + part);
    ASSERT_NE(found, nullptr) << prefix << part;
    const auto numbers = numbers_of(*found);
    ASSERT_EQ(2 * numbers.size(), wanted.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_EQ(numbers[i], wanted[(2 * (i / size) + half) * size + i % size]) << part << " " << i;
    }
    ++half;
  }
}

void expect_equal_tensors(const GgufFile& file, const GgufFile& expected, bool is_type_equal) {
  std::size_t joined = 0;
  for (const GgufTensor& tensor : expected.tensors()) {
    if (tensor.name.ends_with("ffn_gate_up_exps.weight")) {
      expect_equal_halves(file, tensor);
      ++joined;
      continue;
    }
    const GgufTensor* const found = file.find_tensor(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->dims, tensor.dims) << tensor.name;
    if (is_type_equal) {
      EXPECT_EQ(found->type, tensor.type) << tensor.name;
    }
    const auto numbers = numbers_of(*found);
    const auto wanted = numbers_of(tensor);
    ASSERT_EQ(numbers.size(), wanted.size()) << tensor.name;
    const bool is_logarithm = tensor.name.ends_with("ssm_a");
    const bool is_shifted = tensor.name.ends_with("norm.weight");  // 1 is taken and added again
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const float tolerance = is_logarithm ? 1e-6f * std::abs(wanted[i])
                              : is_shifted ? 1e-7f
                                           : 0.0f;
      ASSERT_NEAR(numbers[i], wanted[i], tolerance) << tensor.name << " " << i;
    }
  }
  EXPECT_EQ(file.tensors().size(), expected.tensors().size() + joined);
}

void expect_equal_keys(const GgufFile& file, const GgufFile& expected) {
  const std::string prefix = std::string(*expected.architecture()) + ".";
  for (const auto& [key, value] : expected.metadata()) {
    if (!key.starts_with(prefix)) continue;
    const GgufValue* const found = file.find_value(key);
    ASSERT_NE(found, nullptr) << key;
    EXPECT_EQ(found->type, value.type) << key;
    EXPECT_TRUE(std::ranges::equal(found->bytes, value.bytes)) << key;
  }
}

// Keys that only the converter writes must not change the model.
void expect_equal_plans(const GgufFile& file, const GgufFile& expected) {
  const auto found = read_decoder(file);
  ASSERT_TRUE(found) << found.error().message;
  const DecoderConfig& config = found->config;
  const DecoderConfig wanted = read_decoder_config(expected).value();
  EXPECT_EQ(config.architecture, wanted.architecture);
  ASSERT_EQ(config.layer_count, wanted.layer_count);
  EXPECT_EQ(config.layer, wanted.layer);
  for (std::uint32_t i = 0; i < wanted.layer_count; ++i) {
    EXPECT_EQ(config.plan(i), wanted.plan(i)) << i;
  }
  EXPECT_EQ(config.rope.theta, wanted.rope.theta);
  EXPECT_EQ(config.rope.rotated, wanted.rope.rotated);
  EXPECT_EQ(config.rope.frequency_divisors, wanted.rope.frequency_divisors);
  EXPECT_EQ(config.rope.long_divisors, wanted.rope.long_divisors);
  EXPECT_EQ(config.rope.long_after, wanted.rope.long_after);
  EXPECT_EQ(config.rope.magnitude, wanted.rope.magnitude);
  EXPECT_EQ(config.window_rope.theta, wanted.window_rope.theta);
  EXPECT_EQ(config.embedding_scale, wanted.embedding_scale);
  EXPECT_EQ(config.logit_cap, wanted.logit_cap);
}

class FamilyFixture : public ::testing::Test {
 protected:
  explicit FamilyFixture(HfVariant variant)
      : variant_(std::move(variant)),
        bytes_(testing::unzipped(testing::kFamilies / (variant_.family + ".gguf.gz"))),
        expected_(GgufFile::parse(bytes_).value()),
        source_(test::hf_checkpoint_of(expected_, variant_)) {}

  Result<void> convert() {
    source_.write(input_);
    return convert_model({.input = input_.path(),
                          .output = output_ / "m.gguf",
                          .type = DType::f32,
                          .on_notice = [&](const std::string& notice) { notice_ = notice; }});
  }

  HfVariant variant_;
  Bytes bytes_;
  GgufFile expected_;
  HfCheckpoint source_;
  std::string notice_;
  TemporaryDirectory input_;
  TemporaryDirectory output_;
};

class ConvertFamiliesTest : public FamilyFixture, public ::testing::WithParamInterface<HfVariant> {
 protected:
  ConvertFamiliesTest() : FamilyFixture(GetParam()) {}
};

TEST_P(ConvertFamiliesTest, RestoresModel) {
  const auto done = convert();
  ASSERT_TRUE(done) << done.error().message;
  const GgufFile file = GgufFile::open(output_ / "m.gguf").value();
  expect_equal_tensors(file, expected_, !variant_.plain_experts);
  expect_equal_keys(file, expected_);
  expect_equal_plans(file, expected_);
  EXPECT_EQ(notice_.find("images") != std::string::npos, variant_.with_images) << notice_;
}

INSTANTIATE_TEST_SUITE_P(
    Families, ConvertFamiliesTest,
    ::testing::Values(
        HfVariant{.family = "llama-yarn"}, HfVariant{.family = "qwen3"},
        HfVariant{.family = "smollm3"}, HfVariant{.family = "gemma3"},
        HfVariant{.family = "gemma3", .newer_keys = true}, HfVariant{.family = "qwen3moe"},
        HfVariant{.family = "qwen3moe", .joined_experts = true}, HfVariant{.family = "phi3"},
        HfVariant{.family = "gpt-oss"}, HfVariant{.family = "gpt-oss", .plain_experts = true},
        HfVariant{.family = "qwen35"}, HfVariant{.family = "qwen35", .with_images = true},
        HfVariant{.family = "qwen35moe", .joined_experts = true}, HfVariant{.family = "qwen35moe"},
        HfVariant{.family = "lfm2"}, HfVariant{.family = "mistral3"},
        HfVariant{.family = "gemma4-ple"}, HfVariant{.family = "gemma4-keqv"},
        HfVariant{.family = "gemma4-moe"}),
    [](const auto& variant) {
      const HfVariant& v = variant.param;
      std::string name = v.family;
      std::erase(name, '-');
      if (v.joined_experts) name += "_joined_experts";
      if (v.plain_experts) name += "_plain_experts";
      if (v.with_images) name += "_with_images";
      if (v.newer_keys) name += "_newer_keys";
      return name;
    });

class ConvertQwen3MoeTest : public FamilyFixture {
 protected:
  ConvertQwen3MoeTest() : FamilyFixture({.family = "qwen3moe"}) {}
};

TEST_F(ConvertQwen3MoeTest, NamesMissingExpert) {
  const std::string name = "model.layers.1.mlp.experts.5.up_proj.weight";
  source_.tensors.erase(name);
  EXPECT_TRUE(fails_with(convert(), Errc::bad_file, name));
}

TEST_F(ConvertQwen3MoeTest, NamesExpertsBeyondTheirNumber) {
  source_.config["num_experts"] = 7;
  EXPECT_TRUE(fails_with(convert(), Errc::bad_file, "mlp.gate.weight"));
}

TEST_F(ConvertQwen3MoeTest, RefusesWeightsThatAreNotNormed) {
  source_.config.erase("norm_topk_prob");
  EXPECT_TRUE(fails_with(convert(), Errc::unsupported, "norm_topk_prob"));
}

class ConvertSmolLm3Test : public FamilyFixture {
 protected:
  ConvertSmolLm3Test() : FamilyFixture({.family = "smollm3"}) {}
};

TEST_F(ConvertSmolLm3Test, RefusesOtherLayersWithoutRotation) {
  source_.config["no_rope_layers"][0] = 0;
  EXPECT_TRUE(fails_with(convert(), Errc::unsupported, "no_rope_layers"));
  source_.config["no_rope_layers"].erase(0);
  EXPECT_TRUE(fails_with(convert(), Errc::bad_file, "no_rope_layers"));
  source_.config.erase("no_rope_layers");
  EXPECT_TRUE(convert());
  source_.config["no_rope_layer_interval"] = 3;
  EXPECT_TRUE(fails_with(convert(), Errc::unsupported, "no_rope_layer_interval"));
}

class ConvertGemma3Test : public FamilyFixture {
 protected:
  ConvertGemma3Test() : FamilyFixture({.family = "gemma3", .newer_keys = true}) {}
};

TEST_F(ConvertGemma3Test, RefusesIrregularLayers) {
  source_.config["layer_types"] = {"full_attention",    "sliding_attention", "sliding_attention",
                                   "sliding_attention", "sliding_attention", "sliding_attention"};
  EXPECT_TRUE(fails_with(convert(), Errc::unsupported, "layer_types"));
}

TEST_F(ConvertGemma3Test, KeepsOwnScale) {
  source_.config["query_pre_attn_scalar"] = 100;
  ASSERT_TRUE(convert());
  const GgufFile file = GgufFile::open(output_ / "m.gguf").value();
  EXPECT_FLOAT_EQ(read_decoder_config(file)->plan(0).attention_scale, 0.1f);
}

// Files of the 27 B model have no key for its scale: width 5376, 32 heads of 128.
TEST(Gemma3PlanTest, ScalesLargestModelByWidthPerHead) {
  GgufMetadata metadata;
  for (const auto& [key, value] :
       {std::pair("block_count", 62u), std::pair("context_length", 131072u),
        std::pair("embedding_length", 5376u), std::pair("feed_forward_length", 21504u),
        std::pair("attention.head_count", 32u), std::pair("attention.head_count_kv", 16u),
        std::pair("attention.key_length", 128u), std::pair("attention.value_length", 128u),
        std::pair("attention.sliding_window", 1024u)}) {
    metadata.set_u32(std::string("gemma3.") + key, value);
  }
  metadata.set_f32("gemma3.attention.layer_norm_rms_epsilon", 1e-6f);
  const Family& family = **find_family("gemma3");
  EXPECT_FLOAT_EQ(read_plan(metadata.keys(), family)->plan(0).attention_scale,
                  1.0f / std::sqrt(168.0f));
  metadata.set_u32("gemma3.block_count", 48);
  EXPECT_EQ(read_plan(metadata.keys(), family)->plan(0).attention_scale, 0.0f) << "by head size";
}

class ConvertPhi3Test : public FamilyFixture {
 protected:
  ConvertPhi3Test() : FamilyFixture({.family = "phi3"}) {}
};

// 1024 positions are four times 256, and ln 4 / ln 256 is 1 / 4.
TEST_F(ConvertPhi3Test, ComputesMagnitudeFromContexts) {
  source_.config["rope_scaling"].erase("attention_factor");
  ASSERT_TRUE(convert());
  const GgufFile file = GgufFile::open(output_ / "m.gguf").value();
  EXPECT_FLOAT_EQ(*file.get_f32("phi3.rope.scaling.attn_factor"), std::sqrt(1.25f));
}

TEST_F(ConvertPhi3Test, NamesInvalidFactors) {
  source_.config["rope_scaling"]["long_factor"].erase(0);
  EXPECT_TRUE(fails_with(convert(), Errc::bad_file, "long_factor"));
  source_.config["rope_scaling"]["long_factor"].push_back(-1.0);
  EXPECT_TRUE(fails_with(convert(), Errc::bad_file, "long_factor"));
}

class ConvertGptOssTest : public FamilyFixture {
 protected:
  ConvertGptOssTest() : FamilyFixture({.family = "gpt-oss"}) {}
};

TEST_F(ConvertGptOssTest, NamesInvalidBlocks) {
  const std::string name = "model.layers.2.mlp.experts.down_proj_blocks";
  HfCheckpoint::Tensor& blocks = source_.tensors.at(name);
  blocks.type = "I8";
  EXPECT_TRUE(fails_with(convert(), Errc::unsupported, name));
  blocks.type = "U8";
  std::swap(blocks.shape[1], blocks.shape[2]);
  EXPECT_TRUE(fails_with(convert(), Errc::bad_file, name));
}

TEST_F(ConvertGptOssTest, RefusesOtherBoundsOfRotation) {
  source_.config["rope_scaling"]["beta_fast"] = 16.0;
  EXPECT_TRUE(fails_with(convert(), Errc::unsupported, "beta_fast"));
}

class ConvertLfm2Test : public FamilyFixture {
 protected:
  ConvertLfm2Test() : FamilyFixture({.family = "lfm2"}) {}
};

// Two thirds of 230 are 153, and the next multiple of 32 is 160.
TEST_F(ConvertLfm2Test, RoundsHiddenSize) {
  source_.config.update({{"block_ff_dim", 230},
                         {"block_auto_adjust_ff_dim", true},
                         {"block_ffn_dim_multiplier", 1.0},
                         {"block_multiple_of", 32}});
  const auto done = convert();
  ASSERT_TRUE(done) << done.error().message;
  const GgufFile file = GgufFile::open(output_ / "m.gguf").value();
  EXPECT_EQ(*file.get_u32("lfm2.feed_forward_length"), 160u);
}

TEST_F(ConvertLfm2Test, RequiresKindsOfLayers) {
  source_.config["layer_types"][1] = "linear_attention";
  EXPECT_TRUE(fails_with(convert(), Errc::unsupported, "layer_types"));
  source_.config.erase("layer_types");
  EXPECT_TRUE(fails_with(convert(), Errc::bad_file, "layer_types"));
}

}  // namespace
}  // namespace edgedraft
