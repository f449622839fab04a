// Assistants that attend to their target's keys, against llama.cpp's results and against
// themselves.
#include <gtest/gtest.h>

#include <algorithm>

#include "shared/drafting/drafter_fit.h"
#include "shared/drafting/gemma4_assistant/assistant_network.h"
#include "shared/drafting/gemma4_assistant/assistant_tap.h"
#include "shared/drafting/kinds.h"
#include "shared/model/fingerprint.h"
#include "tests/drafting/damaged_bundle.h"
#include "tests/drafting/network_test.h"
#include "tests/support/assistant_bundle.h"
#include "tests/support/expect.h"
#include "tests/support/family_models.h"

namespace edgedraft {
namespace {

using testing::AssistantBundle;
using testing::FamilyModel;
using testing::read_logits;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kContext = 512;

std::vector<float> read_rows(Tap& tap, const KvCache& cache, std::uint32_t first,
                             std::uint32_t end) {
  std::uint32_t cols = 0;
  for (const std::uint32_t group : tap.scale_groups()) cols += group;
  std::vector<float> rows(std::size_t{end - first} * cols);
  tap.read(cache, first, end - first, rows);
  return rows;
}

class AssistantTest : public testing::OpTest {
 protected:
  static Tokens drafts(AssistantNetwork& network, const Tokens& expected,
                       const std::vector<float>& margins, const nlohmann::json* logits) {
    constexpr float kNoise = 0.1f;  // smaller margins do not decide
    Tokens drafted;
    for (std::uint32_t i = 0; i < expected.size(); ++i) {
      if (i > 0) {
        const GrowthNode node{.token = drafted.back(),
                              .depth = i,
                              .ancestors = i == 1 ? AncestorMask{} : causal_masks(i - 1).back()};
        network.expand(std::span(&node, 1));
      }
      const auto row = read_logits(network);
      if (logits != nullptr) {
        testing::expect_close(row, (*logits)[i].get<std::vector<float>>(), 2e-3);
      }
      if (margins[i] < kNoise) return drafted;
      drafted.push_back(static_cast<std::uint32_t>(std::ranges::max_element(row) - row.begin()));
      if (drafted.back() != expected[i]) return drafted;
    }
    return drafted;
  }

  std::unique_ptr<Backend> cpu_ = make_cpu_backend({.threads = 1});
};

// After some tokens of the target, as in a chat: the drafter has the rows of all tokens but the
// newest.
TEST_P(AssistantTest, DraftsTheTokensOfLlamaCpp) {
  constexpr std::size_t kStep = 3;
  for (const std::string& name : testing::kAssistants) {
    const AssistantBundle bundle(name);
    FamilyModel target(*cpu_, bundle.family(), kContext, testing::Weights::as_stored,
                       testing::Keeps::features);
    AssistantTap tap(*cpu_, bundle.model());
    for (const auto& prompt : bundle.golden().at("prompts")) {
      const Tokens ids = prompt.at("ids");
      const Tokens answer = prompt.at("target");
      KvCache cache = target.decoder().make_cache();
      target.decoder().append(cache, ids);
      AssistantNetwork network(backend(), bundle.model(), kContext);
      network.commit(ids);
      std::uint32_t known = 0;
      for (std::size_t s = 0; s < answer.size(); s += kStep) {
        network.extend_memory(known, read_rows(tap, cache, known, cache.length()));
        known = cache.length();
        const auto next = std::span(answer).subspan(s, kStep);
        network.commit(next.first(1));
        const auto& logits = prompt.at("logits");
        const Tokens expected = prompt.at("drafts")[s];
        const Tokens drafted = drafts(network, expected, prompt.at("margins")[s],
                                      s == 0 && !logits.empty() ? &logits : nullptr);
        EXPECT_TRUE(std::ranges::equal(drafted, std::span(expected).first(drafted.size())))
            << name << ", " << ids.size() << " tokens, token " << s;
        network.commit(next.subspan(1));
        target.decoder().append(cache, next);
      }
    }
  }
}

class AssistantNetworkTest : public testing::NetworkTest<AssistantNetwork> {
 protected:
  AssistantNetwork fresh() override { return {backend(), bundle_.model(), 300}; }

  AssistantBundle bundle_{testing::kAssistants.back()};
};

TEST_P(AssistantNetworkTest, DraftedPathMatchesCommittedPathBitForBit) {
  expect_drafts_have_the_bits_of_commits(3);
}

TEST_P(AssistantNetworkTest, LevelMatchesSingleNodesBitForBit) {
  expect_levels_have_the_bits_of_nodes(40);
}

TEST_P(AssistantNetworkTest, TruncatedTokensAndRowsLeaveNoTrace) {
  expect_truncation_leaves_no_trace();
}

// Rows of a long prompt arrive newest first, and rows may be ahead of the tokens.
TEST_P(AssistantNetworkTest, OrderOfArrivalLeavesNoTrace) {
  const Tokens text = some_tokens(61);
  AssistantNetwork at_once = fresh();
  extend(at_once, 0, 60);
  at_once.commit(text);
  AssistantNetwork pieces = fresh();
  extend(pieces, 40, 20);
  pieces.commit(std::span(text).first(30));
  extend(pieces, 10, 30);
  pieces.commit(std::span(text).subspan(30, 25));
  EXPECT_NE(read_logits(pieces), read_logits(at_once));
  extend(pieces, 0, 10);
  pieces.commit(std::span(text).subspan(55));
  EXPECT_EQ(read_logits(pieces), read_logits(at_once));
}

TEST_P(AssistantNetworkTest, FillsItsContext) {
  expect_context_can_be_filled();
}

INSTANTIATE_TEST_SUITE_P(Backends, AssistantTest, ::testing::ValuesIn(testing::drafting_backends()),
                         testing::backend_name);
INSTANTIATE_TEST_SUITE_P(Backends, AssistantNetworkTest,
                         ::testing::ValuesIn(testing::drafting_backends()), testing::backend_name);

// A page before the window may belong to another session.
TEST(AssistantTapTest, SendsNothingFromBeforeAWindow) {
  const auto backend = make_cpu_backend({.threads = 1});
  const AssistantBundle bundle("gemma4-assistant");
  const auto& memories = bundle.model().memories;
  ASSERT_EQ(memories.size(), 2u);
  ASSERT_GT(memories[0].window, 0u);
  FamilyModel target(*backend, bundle.family(), kContext, testing::Weights::as_stored,
                     testing::Keeps::features);
  KvCache cache = target.decoder().make_cache();
  const Tokens ids = bundle.golden().at("prompts").back().at("ids");
  target.decoder().append(cache, ids);
  AssistantTap tap(*backend, bundle.model());
  const auto rows = read_rows(tap, cache, 0, cache.length());
  const std::size_t cols = rows.size() / cache.length();
  const auto is_zero = [](float value) { return value == 0.0f; };
  for (std::uint32_t p = 0; p < cache.length(); ++p) {
    const auto row = std::span(rows).subspan(p * cols, cols);
    const bool is_before = p + memories[0].window <= cache.length();
    EXPECT_EQ(std::ranges::all_of(row.first(memories[0].cols()), is_zero), is_before) << p;
    EXPECT_FALSE(std::ranges::any_of(row.subspan(memories[0].cols()), is_zero)) << p;
  }
}

class AssistantBundleTest : public ::testing::TestWithParam<std::string> {
 protected:
  AssistantBundle bundle_{GetParam()};
  test::TemporaryDirectory directory_;
};

TEST_P(AssistantBundleTest, NamesItsTarget) {
  const GgufFile target = GgufFile::open(bundle_.target_path()).value();
  const DrafterKind& kind = **drafter_kind_of(bundle_.file());
  EXPECT_EQ(kind.name, "gemma4-assistant");
  EXPECT_EQ(target_fingerprint_of(bundle_.file()).value(), model_fingerprint(target).value());
  const auto drafter = kind.read(bundle_.file()).value();
  EXPECT_TRUE(check_target(drafter->facts(), read_decoder_config(target).value()));
  EXPECT_TRUE(bundle_.file().find_value("tokenizer.ggml.tokens"));
}

TEST_P(AssistantBundleTest, SendsKeysOnlyIfValuesDoNotGiveThem) {
  const auto& memories = bundle_.model().memories;
  ASSERT_EQ(memories.size(), 2u);
  EXPECT_EQ(memories[0].cols(), 2 * memories[0].heads.kv_cols());
  const bool are_derived = GetParam() == testing::kAssistants.back();
  EXPECT_EQ(memories[1].cols(), (are_derived ? 1 : 2) * memories[1].heads.kv_cols());
}

// Every tensor of the drafter is needed, in its shape.
TEST_P(AssistantBundleTest, RefusesDamagedBundles) {
  const auto write = [&](const testing::Damage& damage) {
    testing::write_damaged(bundle_.file(), directory_ / "damaged.gguf", damage);
    return GgufFile::open(directory_ / "damaged.gguf").value();
  };
  const auto expect_refused = [&](const testing::Damage& damage, const std::string& named) {
    const auto read = read_assistant(write(damage));
    ASSERT_FALSE(read) << named;
    EXPECT_TRUE(contains(read.error().message, named));
  };
  for (const GgufTensor& tensor : bundle_.file().tensors()) {
    const std::string name(tensor.name);
    const bool is_optional =
        name.ends_with("k_norm.weight") || name.ends_with("layer_output_scale.weight");
    if (!is_optional) expect_refused({.tensor = name}, name);
    if (name != "token_embd.weight" && !name.ends_with("layer_output_scale.weight")) {
      expect_refused({.cut_tensor = name}, name);
    }
  }
  for (const char* key : {"edgedraft.target.window_layer", "edgedraft.target.full_layer",
                          "gemma4-assistant.embedding_length_out"}) {
    expect_refused({.key = key}, key);
    expect_refused({.u32s = {{key, 0x7FFFFFFF}}}, key);
  }
  expect_refused({.u32s = {{"gemma4-assistant.embedding_length_per_layer_input", 16}}},
                 "embeddings of their own");
  // A layer with another window.
  const GgufFile file = write({.u32s = {{"edgedraft.target.full_layer", 1}}});
  const auto target = read_decoder_config(GgufFile::open(bundle_.target_path()).value()).value();
  const auto fits = check_target((*drafter_kind_of(file))->read(file).value()->facts(), target);
  ASSERT_FALSE(fits);
  EXPECT_TRUE(contains(fits.error().message, "another window"));
}

TEST_P(AssistantBundleTest, KeepsRowsOfChosenTokensOnly) {
  const Tokens tokens{1, 5, 7, 90};
  const AssistantBundle reduced(GetParam(), tokens);
  EXPECT_EQ(reduced.model().sizes.draft_tokens, tokens);
  EXPECT_EQ(reduced.model().output.rows, tokens.size());
  EXPECT_EQ(reduced.model().token_embd.rows, bundle_.model().token_embd.rows);
}

TEST_P(AssistantBundleTest, RefusesAssistantsThatItWouldDraftWronglyFrom) {
  const GgufFile assistant = GgufFile::open(bundle_.assistant_path()).value();
  const auto expect_refused = [&](const testing::Damage& damage, const std::string& named) {
    testing::write_damaged(assistant, directory_ / "damaged.gguf", damage);
    const auto made = make_bundle({.target = bundle_.target_path(),
                                   .drafter = directory_ / "damaged.gguf",
                                   .output = directory_ / "bundle.gguf"});
    ASSERT_FALSE(made) << named;
    EXPECT_TRUE(contains(made.error().message, named));
    EXPECT_FALSE(std::filesystem::exists(directory_ / "bundle.gguf"));
  };
  for (const char* name : {"token_embd.weight", "nextn.pre_projection.weight",
                           "nextn.post_projection.weight", "blk.0.attn_q.weight"}) {
    expect_refused({.tensor = name}, name);
    expect_refused({.cut_tensor = name}, name);
  }
  expect_refused({.copies = {{"blk.0.attn_q.", "blk.0.attn_k."}}}, "blk.0.attn_k.weight");
  expect_refused({.copies = {{"nextn.pre", "nextn.other"}}}, "nextn.other");
  expect_refused({.u32s = {{"gemma4-assistant.attention.sliding_window", 25}}},
                 "within 25 positions");
}

// Another size of the family, and another family.
TEST_P(AssistantBundleTest, RefusesOtherTargets) {
  for (const std::string& family :
       {std::string("gemma4-ple"), std::string("gemma4-keqv"), std::string("qwen3")}) {
    if (family == bundle_.family()) continue;
    const auto target = directory_.write(
        "other.gguf", testing::unzipped(testing::kFamilies / (family + ".gguf.gz")));
    const auto made = make_bundle({.target = target,
                                   .drafter = bundle_.assistant_path(),
                                   .output = directory_ / "bundle.gguf"});
    ASSERT_FALSE(made) << family;
    EXPECT_TRUE(contains(made.error().message, family == "qwen3" ? "is a qwen3" : "key heads"));
  }
}

INSTANTIATE_TEST_SUITE_P(Assistants, AssistantBundleTest,
                         ::testing::ValuesIn(testing::kAssistants));

}  // namespace
}  // namespace edgedraft
