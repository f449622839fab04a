#include <algorithm>

#include "shared/runtime/decoder.h"
#include "tests/runtime/op_test.h"
#include "tests/support/state_reading.h"
#include "tests/support/toy_models.h"

// Hidden states follow keys and values: the same bits with any other rows in the pass, drafted or
// not, paged or not, computed or adopted.
namespace edgedraft::testing {
namespace {

constexpr std::uint32_t kContext = 200;
constexpr std::uint32_t kLayers = 3;
const std::vector<std::uint32_t> kAllStates = {0, 1, 2, 3, 4};

using StatePlanesTest = OpTest;

std::vector<std::uint32_t> random_tokens(Random& random, std::uint32_t count) {
  std::vector<std::uint32_t> tokens(count);
  for (auto& t : tokens) t = static_cast<std::uint32_t>(random.below(kToyVocabulary));
  return tokens;
}

TEST_P(StatePlanesTest, StateIsOutputOfItsLayer) {
  const ToyDecoder toy(5, kLayers);
  Random random(1);
  const auto tokens = random_tokens(random, 20);
  const auto count = static_cast<std::uint32_t>(tokens.size());
  Decoder whole(backend(), toy.config, toy.tensors, kContext, kAllStates);
  KvCache cache = whole.make_cache();
  whole.append(cache, tokens);
  const Floats logits = values_of(backend(), whole.logits(0, count));

  const std::uint32_t dim = toy.config.layer.dim;
  WeightStore weights(backend());
  const OwnedMatrix x(backend(), count, dim);
  backend().embed({.table = weights.add(toy.tensors.token_embd), .tokens = tokens, .y = x.all()});
  EXPECT_TRUE(same_bytes(states_of(backend(), cache, 0, 0, count), values_of(backend(), x.all())));

  for (std::uint32_t layers = 1; layers <= kLayers; ++layers) {
    ToyDecoder beginning = toy;
    beginning.config.layer_count = layers;
    beginning.tensors.layers.resize(layers);
    Decoder decoder(backend(), beginning.config, beginning.tensors, kContext, {layers});
    KvCache own = decoder.make_cache();
    decoder.append(own, tokens);
    EXPECT_TRUE(same_bytes(states_of(backend(), cache, layers, 0, count),
                           states_of(backend(), own, layers, 0, count)))
        << layers;
  }

  // Features are the last layer's rows after the norm, which the head multiplies.
  backend().write(x.all(), states_of(backend(), cache, kLayers, 0, count));
  backend().rms_norm({.x = x.all(),
                      .weight = weights.add(toy.tensors.output_norm),
                      .y = x.all(),
                      .epsilon = toy.config.layer.rms_epsilon});
  EXPECT_TRUE(same_bytes(states_of(backend(), cache, kLayers + 1, 0, count),
                         values_of(backend(), x.all())));
  const OwnedMatrix y(backend(), count, kToyVocabulary);
  backend().matmul(
      {.x = x.all(),
       .weight = weights.add_matrix(toy.tensors.output.value_or(toy.tensors.token_embd)),
       .bias = {},
       .y = y.all()});
  EXPECT_TRUE(same_bytes(values_of(backend(), y.all()), logits));
}

// Two sequences draft trees in shared passes and keep paths of them.
TEST_P(StatePlanesTest, KeptPathMatchesSingleTokensBitForBit) {
  const ToyDecoder toy(6, kLayers);
  Decoder decoder(backend(), toy.config, toy.tensors, kContext, {0, 2, 4});
  KvCache caches[] = {decoder.make_cache(), decoder.make_cache()};
  std::vector<std::uint32_t> texts[2];
  Random random(2);
  for (int step = 0; step < 8; ++step) {
    std::vector<std::uint32_t> tokens[2];
    std::vector<std::uint32_t> positions[2];
    std::vector<AncestorMask> masks[2];
    std::vector<SequenceRows> sequences;
    for (int i = 0; i < 2; ++i) {
      const auto rows = static_cast<std::uint32_t>(1 + random.below(12));
      tokens[i] = random_tokens(random, rows);
      masks[i] = random_tree(random(), rows);
      for (std::uint32_t r = 0; r < rows; ++r) {
        std::uint32_t depth = 0;
        for (std::uint32_t j = 0; j < r; ++j) depth += masks[i][r].test(j) ? 1 : 0;
        positions[i].push_back(caches[i].length() + depth);
      }
      sequences.push_back({.cache = &caches[i],
                           .tokens = tokens[i],
                           .batch = {.positions = positions[i],
                                     .prefix = caches[i].length(),
                                     .first_slot = caches[i].length(),
                                     .masks = masks[i]}});
    }
    decoder.forward(sequences);
    for (int i = 0; i < 2; ++i) {
      std::vector<std::uint32_t> path;
      for (std::uint32_t r = 0; r < tokens[i].size(); ++r) {
        if (!masks[i].back().test(r)) continue;
        path.push_back(caches[i].length() + r);
        texts[i].push_back(tokens[i][r]);
      }
      caches[i].keep(path);
    }
  }
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(caches[i].length(), texts[i].size());
    KvCache alone = decoder.make_cache();
    for (const std::uint32_t token : texts[i]) decoder.append(alone, std::span(&token, 1));
    for (const std::uint32_t state : {0u, 2u, 4u}) {
      EXPECT_TRUE(same_bytes(states_of(backend(), caches[i], state, 0, alone.length()),
                             states_of(backend(), alone, state, 0, alone.length())))
          << "sequence " << i << ", state " << state;
    }
  }
}

TEST_P(StatePlanesTest, AdoptedPagesCarryTheirStates) {
  if (!backend().takes_pages()) {
    GTEST_SKIP() << GetParam().name << ": serves one sequence, without pages";
  }
  const ToyDecoder toy(7, kLayers);
  for (const DType type : kCacheTypes) {
    Decoder decoder(backend(), toy.config, toy.tensors, kContext, {1, 4});
    KvPool pool(backend(), decoder.pool_size(40, type, 8));
    KvCache first = decoder.make_cache(pool);
    KvCache between = decoder.make_cache(pool);
    KvCache own = decoder.make_cache(type);
    Random random(3);
    const auto text = random_tokens(random, 32);
    for (std::uint32_t done = 0; done < 32; done += 4) {
      ASSERT_TRUE(first.reserve(done + 4) && between.reserve(done + 4));
      decoder.append(first, std::span(text).subspan(done, 4));
      decoder.append(between, random_tokens(random, 4));
    }
    decoder.append(own, text);
    // The first is released, like an evicted session; its adopted pages stay.
    KvCache second = decoder.make_cache(pool);
    second.adopt(first.pages());
    first.set_length(0);
    EXPECT_EQ(first.slots(), 0u);
    ASSERT_TRUE(between.reserve(64));
    decoder.append(between, random_tokens(random, 32));
    ASSERT_EQ(second.length(), 32u);
    for (const std::uint32_t state : {1u, 4u}) {
      EXPECT_TRUE(same_bytes(states_of(backend(), second, state, 0, 32),
                             states_of(backend(), own, state, 0, 32)))
          << traits(type).name << ", state " << state;
    }
  }
}

EDGEDRAFT_FOR_ALL_BACKENDS(StatePlanesTest);

TEST(StatePlanesSizeTest, UnusedStatesTakeNoMemory) {
  const auto backend = make_cpu_backend({.threads = 1});
  const ToyDecoder toy(8, kLayers);
  const Decoder without(*backend, toy.config, toy.tensors, kContext);
  const Decoder with(*backend, toy.config, toy.tensors, kContext, {1, 4});
  EXPECT_EQ(without.make_cache().planes().count(), 0u);
  const std::uint64_t states = std::uint64_t{2} * toy.config.layer.dim * KvPool::kPageSlots;
  for (const DType type : kCacheTypes) {
    EXPECT_EQ(with.pool_size(1, type).page_bytes() - without.pool_size(1, type).page_bytes(),
              cache_bytes(plane_type(type), states));
  }
}

}  // namespace
}  // namespace edgedraft::testing
