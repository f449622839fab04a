// The drafter that a model brings, against llama.cpp's results and against itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shared/drafting/kinds.h"
#include "shared/drafting/state_tap.h"
#include "shared/model/fingerprint.h"
#include "tests/drafting/damaged_bundle.h"
#include "tests/drafting/network_test.h"
#include "tests/support/expect.h"
#include "tests/support/family_models.h"
#include "tests/support/own_drafter.h"
#include "tests/support/toy_feature_drafters.h"

namespace edgedraft {
namespace {

using nlohmann::json;
using testing::FamilyModel;
using testing::OwnDrafter;
using testing::read_logits;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kContext = 512;

json golden(const std::string& family) {
  return json::parse(
      test::file_text(testing::kFamilies.parent_path() / "mtp" / (family + ".json")));
}

std::uint32_t likeliest(std::span<const float> logits) {
  return static_cast<std::uint32_t>(std::ranges::max_element(logits) - logits.begin());
}

class MtpTest : public testing::OpTest {
 protected:
  // The target's features of all positions of a text.
  std::vector<float> features(FamilyModel& target, const Tokens& text) {
    Decoder& decoder = target.decoder();
    KvCache cache = decoder.make_cache();
    for (std::size_t i = 0; i < text.size(); i += kMaskRowsMax) {
      const std::size_t count = std::min<std::size_t>(kMaskRowsMax, text.size() - i);
      decoder.append(cache, std::span(text).subspan(i, count));
    }
    const std::uint32_t dim = decoder.config().layer.dim;
    std::vector<float> rows(text.size() * dim);
    make_feature_tap(*cpu_, decoder.config().layer_count, dim)
        ->read(cache, 0, static_cast<std::uint32_t>(text.size()), rows);
    return rows;
  }
  static std::vector<float> logits_of_last(FeatureNetwork& network) {
    std::vector<float> logits = read_logits(network);
    return {logits.end() - network.vocabulary_count(), logits.end()};
  }

  std::unique_ptr<Backend> cpu_ = make_cpu_backend({.threads = 1});
};

// After each token of the target, as in a chat: the drafter has the features of all tokens but the
// newest.
TEST_P(MtpTest, DraftsTheTokensOfLlamaCpp) {
  constexpr float kNoise = 0.1f;  // smaller margins do not decide
  for (const std::string& family : testing::kMtpFamilies) {
    const OwnDrafter own(family);
    FamilyModel target(*cpu_, family, kContext, testing::Weights::as_stored,
                       testing::Keeps::features);
    const json expected = golden(family);
    for (const json& prompt : expected.at("prompts")) {
      Tokens text = prompt.at("ids");
      const Tokens answer = prompt.at("target");
      text.insert(text.end(), answer.begin(), answer.end());
      const std::vector<float> rows = features(target, text);
      FeatureNetwork network(backend(), own.model(), kContext);
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
          EXPECT_EQ(likeliest(logits), drafted.back()) << family << ", token " << s << ", " << i;
        }
      }
    }
  }
}

class MtpNetworkTest : public testing::NetworkTest<FeatureNetwork> {
 protected:
  FeatureNetwork fresh() override { return {backend(), toy_mtp_.model, 400}; }

  testing::ToyDecoder toy_{4};
  testing::ToyMtp toy_mtp_{toy_, 40};
};

TEST_P(MtpNetworkTest, DraftedPathMatchesCommittedPathBitForBit) {
  expect_drafts_have_the_bits_of_commits(3);
}

TEST_P(MtpNetworkTest, LevelMatchesSingleNodesBitForBit) {
  expect_levels_have_the_bits_of_nodes(5);
}

// The first token is an input, so a change of it changes every draft.
TEST_P(MtpNetworkTest, AttendsToTheFirstToken) {
  FeatureNetwork network = fresh();
  extend(network, 0, 3);
  network.commit(Tokens{5, 6, 7, 8});
  FeatureNetwork other = fresh();
  extend(other, 0, 3);
  other.commit(Tokens{4, 6, 7, 8});
  EXPECT_NE(read_logits(network), read_logits(other));
}

TEST_P(MtpNetworkTest, TruncatedTokensAndFeaturesLeaveNoTrace) {
  expect_truncation_leaves_no_trace();
}

TEST_P(MtpNetworkTest, FillsItsContext) {
  expect_context_can_be_filled();
}

INSTANTIATE_TEST_SUITE_P(Backends, MtpTest, ::testing::ValuesIn(testing::drafting_backends()),
                         testing::backend_name);
INSTANTIATE_TEST_SUITE_P(Backends, MtpNetworkTest,
                         ::testing::ValuesIn(testing::drafting_backends()), testing::backend_name);

class MtpBundleTest : public ::testing::TestWithParam<std::string> {
 protected:
  OwnDrafter own_{GetParam()};
  test::TemporaryDirectory directory_;
};

TEST_P(MtpBundleTest, SplitDrafterNamesItsTarget) {
  const GgufFile target = GgufFile::open(own_.target_path()).value();
  EXPECT_EQ((*drafter_kind_of(own_.file()))->name, "mtp");
  EXPECT_EQ(target_fingerprint_of(own_.file()).value(), model_fingerprint(target).value());
  const auto drafter = (*drafter_kind_of(own_.file()))->read(own_.file()).value();
  EXPECT_EQ(drafter->facts().tap, kFeatureTap);
  EXPECT_EQ(drafter->facts().target.layer_count, read_decoder_config(target)->layer_count);
  EXPECT_TRUE(own_.file().find_value("tokenizer.ggml.tokens"));
  for (const GgufTensor& tensor : own_.file().tensors()) {
    EXPECT_FALSE(tensor.name.starts_with("blk.")) << tensor.name;
  }
}

// Every tensor of the drafter is needed, in its shape.
TEST_P(MtpBundleTest, RefusesDamagedBundles) {
  const auto expect_refused = [&](const testing::Damage& damage, const std::string& named) {
    testing::write_damaged(own_.file(), directory_ / "damaged.gguf", damage);
    const auto read = read_mtp(GgufFile::open(directory_ / "damaged.gguf").value());
    ASSERT_FALSE(read) << named;
    EXPECT_TRUE(contains(read.error().message, named));
  };
  for (const GgufTensor& tensor : own_.file().tensors()) {
    const std::string name(tensor.name);
    if (name != "output.weight") expect_refused({.tensor = name}, name);
    if (name != "token_embd.weight") expect_refused({.cut_tensor = name}, name);
  }
  const std::string family = GetParam();
  expect_refused({.key = std::string(kMtpFamily)}, std::string(kMtpFamily));
  expect_refused({.strings = {{std::string(kMtpFamily), "xyz"}}}, "xyz");
  expect_refused({.strings = {{std::string(kMtpFamily), "llama"}}}, "llama.");
  expect_refused({.u32s = {{family + ".nextn_predict_layers", 0}}}, "no block");
  expect_refused({.u32s = {{family + ".nextn_predict_layers", 100}}}, "nextn_predict_layers");
  expect_refused({.u32s = {{family + ".attention.key_length", 258},
                           {family + ".attention.value_length", 258}}},
                 "head size is 258");
  expect_refused({.u32s = {{family + ".embedding_length", 1u << 20}}}, "per position");
}

TEST_P(MtpBundleTest, KeepsRowsOfChosenTokensOnly) {
  const Tokens tokens{1, 5, 7, 90};
  const OwnDrafter reduced(GetParam(), tokens);
  EXPECT_EQ(reduced.model().sizes.draft_tokens, tokens);
  EXPECT_EQ(reduced.model().output->rows, tokens.size());
  EXPECT_EQ(reduced.model().token_embd.rows, own_.model().token_embd.rows);
}

TEST_P(MtpBundleTest, RefusesBlocksThatItWouldDraftWronglyFrom) {
  const GgufFile target = GgufFile::open(own_.target_path()).value();
  const std::string prefix =
      "blk." + std::to_string(read_decoder_config(target)->layer_count) + ".";
  const auto expect_refused = [&](const testing::Damage& damage, const std::string& named) {
    testing::write_damaged(target, directory_ / "damaged.gguf", damage);
    const auto split =
        split_drafter({.model = directory_ / "damaged.gguf", .output = directory_ / "m.gguf"});
    ASSERT_FALSE(split) << named;
    EXPECT_TRUE(contains(split.error().message, named));
    EXPECT_FALSE(std::filesystem::exists(directory_ / "m.gguf"));
  };
  for (const char* name : {"nextn.eh_proj.weight", "nextn.hnorm.weight", "attn_q.weight"}) {
    expect_refused({.tensor = prefix + name}, name);
    expect_refused({.cut_tensor = prefix + name}, name);
  }
  expect_refused({.copies = {{prefix + "nextn.enorm", prefix + "nextn.other"}}}, "nextn.other");
}

INSTANTIATE_TEST_SUITE_P(Families, MtpBundleTest, ::testing::ValuesIn(testing::kMtpFamilies));

}  // namespace
}  // namespace edgedraft
