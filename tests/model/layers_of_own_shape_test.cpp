#include <gtest/gtest.h>

#include "shared/model/decoder_tensors.h"
#include "shared/model/gguf.h"
#include "tests/model/raw_decoder.h"

// Layers that differ in their heads and read each other's keys and values.
namespace edgedraft {
namespace {

using test::RawGguf;

struct Keys {
  std::vector<std::uint8_t> windowed = {1, 0, 1, 0};
  std::vector<std::uint32_t> kv_heads = {2, 1, 2, 1};
  std::uint32_t shared_layers = 2;
  std::uint32_t embedding_dim = 0;
  float cap = 30.0f;
};

Result<DecoderConfig> config_of(const Keys& keys) {
  RawGguf raw;
  raw.add_string("general.architecture", "gemma4");
  const auto set = [&](const std::string& key, std::uint32_t value) {
    raw.add_u32("gemma4." + key, value);
  };
  set("block_count", 4);
  set("context_length", 64);
  set("embedding_length", 8);
  set("feed_forward_length", 12);
  set("attention.head_count", 2);
  set("attention.key_length", 8);
  set("attention.key_length_swa", 4);
  set("attention.sliding_window", 16);
  set("attention.shared_kv_layers", keys.shared_layers);
  set("embedding_length_per_layer_input", keys.embedding_dim);
  raw.add_numbers("gemma4.attention.head_count_kv", 4, keys.kv_heads);
  raw.add_numbers("gemma4.attention.sliding_window_pattern", 7, keys.windowed);
  raw.add_f32("gemma4.attention.layer_norm_rms_epsilon", 1e-6f);
  raw.add_f32("gemma4.final_logit_softcapping", keys.cap);
  test::add_raw_tensor(raw, "rope_freqs.weight", {4});
  test::add_raw_tensor(raw, "token_embd.weight", {8, 5});
  const Bytes bytes = raw.bytes();
  return read_decoder_config(GgufFile::parse(bytes).value());
}

void expect_bad(const Keys& keys, const std::string& named) {
  const auto config = config_of(keys);
  ASSERT_FALSE(config) << named;
  EXPECT_EQ(config.error().code, Errc::bad_file);
  EXPECT_NE(config.error().message.find(named), std::string::npos) << config.error().message;
}

TEST(LayersOfOwnShapeTest, CachesKeysOfLayersThatHaveThem) {
  const auto all = config_of({.shared_layers = 0});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->kv_cols(), (std::vector<std::uint32_t>{8, 8, 8, 8}));
  const auto one = config_of({.kv_heads = {1, 1, 1, 1}, .shared_layers = 1});
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->kv_cols(), (std::vector<std::uint32_t>{4, 8, 4}));
}

TEST(LayersOfOwnShapeTest, SharesKeysOfTheLastLayerWithTheSameWindow) {
  const auto config = config_of({.windowed = {0, 1, 1, 0}, .kv_heads = {1, 2, 2, 1}});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->plan(2).kv_back, 1u);
  EXPECT_EQ(config->plan(3).kv_back, 3u);
}

TEST(LayersOfOwnShapeTest, RefusesLayersWithoutKeysToRead) {
  expect_bad({.shared_layers = 4}, "shared_kv_layers");
  expect_bad({.windowed = {1, 1, 1, 0}, .shared_layers = 1}, "layer 3");
  expect_bad({.kv_heads = {2, 1, 2, 2}}, "layer 3");
}

TEST(LayersOfOwnShapeTest, RefusesImpossibleSizes) {
  expect_bad({.kv_heads = {2, 0, 2, 0}}, "key heads");
  expect_bad({.embedding_dim = 0xFFFFFFFFu}, "embedding_length_per_layer_input");
  expect_bad({.cap = -1.0f}, "final_logit_softcapping");
}

}  // namespace
}  // namespace edgedraft
