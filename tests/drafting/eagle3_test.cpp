// EAGLE-3 drafters against llama.cpp's results and against themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "shared/drafting/fused_tap.h"
#include "shared/drafting/kinds.h"
#include "shared/model/fingerprint.h"
#include "tests/drafting/damaged_bundle.h"
#include "tests/drafting/network_test.h"
#include "tests/support/eagle3_drafter.h"
#include "tests/support/expect.h"
#include "tests/support/family_models.h"
#include "tests/support/toy_feature_drafters.h"

namespace edgedraft {
namespace {

using nlohmann::json;
using testing::Damage;
using testing::Eagle3Drafter;
using testing::expand_chain;
using testing::FamilyModel;
using testing::read_logits;
using Tokens = std::vector<std::uint32_t>;

class Eagle3Test : public testing::OpTest {
 protected:
  static constexpr std::uint32_t kContext = 512;

  // The rows of all positions of a text.
  std::vector<float> rows_of(FamilyModel& target, const StateFusion& projection,
                             const Tokens& text) {
    Decoder& decoder = target.decoder();
    KvCache cache = decoder.make_cache();
    decoder.append(cache, text);
    FusedTap tap(*cpu_, projection);
    std::vector<float> rows(text.size() * projection.fc.rows);
    tap.read(cache, 0, static_cast<std::uint32_t>(text.size()), rows);
    return rows;
  }
  static std::vector<float> logits_of_last(FeatureNetwork& network) {
    const auto logits = read_logits(network);
    const std::size_t cols = network.logits().cols;
    return {logits.end() - static_cast<std::ptrdiff_t>(cols), logits.end()};
  }
  static std::uint32_t likeliest(FeatureNetwork& network, std::span<const float> logits) {
    const auto col = static_cast<std::uint32_t>(std::ranges::max_element(logits) - logits.begin());
    return network.draft_tokens().empty() ? col : network.draft_tokens()[col];
  }

  std::unique_ptr<Backend> cpu_ = make_cpu_backend({.threads = 1});
};

// After each token of the target, as in a chat: the drafter has the rows of all tokens but the
// newest.
TEST_P(Eagle3Test, DraftsTheTokensOfLlamaCpp) {
  constexpr float kNoise = 0.1f;  // smaller margins do not decide
  for (const std::string name : {"d2t", "own"}) {
    const Eagle3Drafter drafter(name);
    FamilyModel target(*cpu_, drafter.target(), kContext, testing::Weights::as_stored,
                       testing::Keeps::inputs);
    for (const json& prompt : drafter.golden().at("prompts")) {
      Tokens text = prompt.at("ids");
      const Tokens answer = prompt.at("target");
      text.insert(text.end(), answer.begin(), answer.end());
      const std::vector<float> rows = rows_of(target, drafter.model().projection, text);
      FeatureNetwork network(backend(), drafter.model().network, kContext);
      const std::size_t cols = network.activation_cols();
      std::size_t known = 0;
      for (std::size_t s = 0; s < answer.size(); ++s) {
        const std::size_t count = prompt.at("ids").size() + s;  // before the newest token
        network.extend_memory(static_cast<std::uint32_t>(known),
                              std::span(rows).subspan(known * cols, (count - known) * cols));
        network.commit(std::span(text).subspan(network.committed_count(),
                                               count + 1 - network.committed_count()));
        known = count;
        Tokens drafted;
        for (std::size_t i = 0; i < prompt.at("drafts")[s].size(); ++i) {
          if (i > 0) {
            const GrowthNode node{
                .token = drafted.back(),
                .depth = static_cast<std::uint32_t>(i),
                .ancestors = i == 1 ? AncestorMask{} : causal_masks(kMaskRowsMax)[i - 2]};
            network.expand(std::span(&node, 1));
          }
          const auto logits = logits_of_last(network);
          if (s == 0 && !prompt.at("logits").empty()) {
            testing::expect_close(logits, prompt.at("logits")[i].get<std::vector<float>>(), 0.02);
          }
          if (prompt.at("margins")[s][i] < kNoise) break;
          drafted.push_back(prompt.at("drafts")[s][i]);
          EXPECT_EQ(likeliest(network, logits), drafted.back()) << name << ", " << s << ", " << i;
        }
      }
    }
  }
}

class Eagle3NetworkTest : public testing::NetworkTest<FeatureNetwork> {
 protected:
  FeatureNetwork fresh() override { return {backend(), toy_eagle3_.model.network, 300}; }

  testing::ToyDecoder toy_{4};
  testing::ToyEagle3 toy_eagle3_{toy_.config, 40};
};

TEST_P(Eagle3NetworkTest, DraftedPathMatchesCommittedPathBitForBit) {
  for (const std::uint32_t rows : {0u, 2u, 3u, 4u}) expect_drafts_have_the_bits_of_commits(rows);
}

TEST_P(Eagle3NetworkTest, LevelMatchesSingleNodesBitForBit) {
  expect_levels_have_the_bits_of_nodes(3);
}

// The head cannot read it, so only the tokens after the last one depend on it.
TEST_P(Eagle3NetworkTest, FeatureOfTheLastTokenAffectsItsChildrenOnly) {
  FeatureNetwork with = fresh();
  FeatureNetwork without = fresh();
  extend(with, 0, 4);
  extend(without, 0, 3);
  for (FeatureNetwork* network : {&with, &without}) network->commit(Tokens{5, 6, 7, 8});
  EXPECT_EQ(read_logits(with), read_logits(without));
  EXPECT_NE(expand_chain(with, Tokens{9}), expand_chain(without, Tokens{9}));
}

TEST_P(Eagle3NetworkTest, LogitsDependOnTokensAndFeaturesNotHistory) {
  expect_history_does_not_matter(40, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, Eagle3Test, ::testing::ValuesIn(testing::drafting_backends()),
                         testing::backend_name);
INSTANTIATE_TEST_SUITE_P(Backends, Eagle3NetworkTest,
                         ::testing::ValuesIn(testing::drafting_backends()), testing::backend_name);

class Eagle3BundleTest : public ::testing::Test {
 protected:
  Eagle3Drafter own_{"own"};
  Eagle3Drafter reduced_{"d2t"};
};

TEST_F(Eagle3BundleTest, LinkCarriesTheWidthOfTheDrafter) {
  const auto drafter = (*drafter_kind_of(own_.file()))->read(own_.file()).value();
  EXPECT_EQ((*drafter_kind_of(own_.file()))->name, "eagle3");
  EXPECT_EQ(drafter->facts().target.dim, 64u);
  const auto backend = make_cpu_backend({.threads = 1});
  const auto tap = drafter->make_tap(*backend);
  ASSERT_EQ(tap->scale_groups().size(), 1u);
  EXPECT_EQ(tap->scale_groups()[0], 96u);
  EXPECT_EQ(drafter->load(*backend, 64)->make_drafter()->activation_cols(), 96u);
}

// Every tensor of the bundle is needed, in its shape.
TEST_F(Eagle3BundleTest, RefusesDamagedBundles) {
  const auto expect_refused = [&](const GgufFile& file, const Damage& damage,
                                  const std::string& named) {
    const auto path = own_.directory() / "damaged.gguf";
    testing::write_damaged(file, path, damage);
    const auto read = read_eagle3(GgufFile::open(path).value());
    ASSERT_FALSE(read) << named;
    EXPECT_TRUE(contains(read.error().message, named));
  };
  for (const GgufFile* file : {&own_.file(), &reduced_.file()}) {
    for (const GgufTensor& tensor : file->tensors()) {
      const std::string name(tensor.name);
      // Without a head the embedding is the head, unless the vocabulary is reduced.
      if (name != "output.weight" || file == &reduced_.file()) {
        expect_refused(*file, {.tensor = name}, name);
      }
      if (name != "token_embd.weight") expect_refused(*file, {.cut_tensor = name}, name);
    }
  }
  const std::string layers(kEagle3States);
  for (const std::string_view key : {kEagle3States, kEagle3TargetDim, kEagle3StartsNormed}) {
    expect_refused(own_.file(), {.key = std::string(key)}, std::string(key));
  }
  expect_refused(own_.file(), {.i32s = {{layers, {1, 2, 99}}}}, "layer 99");
  expect_refused(own_.file(), {.i32s = {{layers, {-1, 2, 3}}}}, "layer -1");
  expect_refused(own_.file(), {.i32s = {{layers, {1, 1, 3}}}}, "increasing");
  expect_refused(own_.file(), {.i32s = {{layers, {}}}}, "0 layers");
  expect_refused(own_.file(), {.u32s = {{std::string(kEagle3TargetDim), 1u << 30}}}, "target_dim");
  expect_refused(own_.file(), {.u32s = {{"llama.block_count", 2}}}, "2 layers");
  expect_refused(own_.file(), {.u32s = {{"llama.embedding_length", 1u << 20}}}, "per position");
}

TEST_F(Eagle3BundleTest, RefusesFilesThatItWouldDraftWronglyFrom) {
  const GgufFile source = GgufFile::open(own_.source_path()).value();
  const auto expect_refused = [&](const Damage& damage, const std::string& named) {
    const auto path = own_.directory() / "damaged.gguf";
    testing::write_damaged(source, path, damage);
    const auto made = own_.bundle_of(path);
    ASSERT_FALSE(made) << named;
    EXPECT_TRUE(contains(made.error().message, named));
  };
  for (const GgufTensor& tensor : source.tensors()) {
    const std::string name(tensor.name);
    expect_refused({.cut_tensor = name}, name);
    // Those of the target have another width.
    expect_refused({.tensor = name}, name);
  }
  expect_refused({.copies = {{"blk.0.attn_q", "blk.0.attn_x"}}}, "attn_x");
  expect_refused({.i32s = {{"eagle3.target_layers", {1, 2, 9}}}}, "eagle3.target_layers");
  expect_refused({.u32s = {{"eagle3.target_hidden_size", 80}}}, "width 80");
  expect_refused({.u32s = {{"eagle3.vocab_size", 99}}}, "99 tokens");
  expect_refused({.u32s = {{"eagle3.attention.key_length", 18}}}, "key_length");
}

class TokenTableTest : public Eagle3BundleTest {
 protected:
  // The bundle of a copy of the file with other entries.
  Result<void> bundle_with(std::map<std::size_t, std::int64_t> entries) {
    Bytes bytes = testing::unzipped(testing::kEagle3Files / "d2t.gguf.gz");
    const ByteView table = GgufFile::parse(bytes)->token_table();
    const auto at = static_cast<std::size_t>(table.data() - bytes.data());
    for (const auto& [row, token] : entries) store_le(&bytes[at + 8 * row], token);
    return reduced_.bundle_of(reduced_.directory().write("other.gguf", bytes));
  }
  static std::vector<std::int64_t> entries_of(const GgufFile& file) {
    std::vector<std::int64_t> entries(file.token_table().size() / 8);
    std::memcpy(entries.data(), file.token_table().data(), file.token_table().size());
    return entries;
  }
};

TEST_F(TokenTableTest, RowsOfTheHeadKeepTheirTokensInAnyOrder) {
  const GgufFile source = GgufFile::open(reduced_.source_path()).value();
  const auto entries = entries_of(source);
  ASSERT_EQ(entries.size(), 160u);
  ASSERT_TRUE(bundle_with({{0, entries[9]}, {9, entries[0]}}));
  const GgufFile file = GgufFile::open(reduced_.path()).value();
  const auto tokens = read_eagle3(file)->network.sizes.draft_tokens;
  ASSERT_EQ(tokens.size(), entries.size());
  EXPECT_TRUE(std::ranges::is_sorted(tokens));
  const auto row_of = [&](const GgufFile& of, std::size_t row) {
    const ByteView all = of.find_tensor("output.weight")->bytes;
    const std::size_t size = all.size() / entries.size();
    return all.subspan(row * size, size);
  };
  const auto row = static_cast<std::size_t>(
      std::ranges::find(tokens, static_cast<std::uint32_t>(entries[9])) - tokens.begin());
  EXPECT_TRUE(std::ranges::equal(row_of(file, row), row_of(source, 0)));
}

TEST_F(TokenTableTest, RefusesTokensThatTheTargetDoesNotHave) {
  const auto entries = entries_of(GgufFile::open(reduced_.source_path()).value());
  for (const std::int64_t token :
       {std::int64_t{384}, std::int64_t{-1}, std::int64_t{1} << 40, INT64_MIN, INT64_MAX}) {
    EXPECT_TRUE(fails_with(bundle_with({{3, token}}), Errc::bad_file, "outside the target's"));
  }
  EXPECT_TRUE(fails_with(bundle_with({{3, entries[4]}}), Errc::bad_file, "twice"));
}

// Copying it as a model would lose the table.
TEST_F(TokenTableTest, IsNotConvertedWithoutItsTarget) {
  const auto done = convert_model_or_bundle(
      {.input = reduced_.source_path(), .output = reduced_.directory() / "copy.gguf"});
  EXPECT_TRUE(fails_with(done, Errc::unsupported, "--bundle --drafter"));
}

}  // namespace
}  // namespace edgedraft
