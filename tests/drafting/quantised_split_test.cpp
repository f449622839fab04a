// Drafters that are split from models of quantised and mixed types.
#include <gtest/gtest.h>

#include <algorithm>

#include "shared/base/random.h"
#include "shared/drafting/bundle_parts.h"
#include "shared/model/convert/convert.h"
#include "shared/model/convert/reduced_head.h"
#include "tests/support/expect.h"
#include "tests/support/own_drafter.h"

namespace edgedraft {
namespace {

using Tokens = std::vector<std::uint32_t>;

constexpr DType kSplitTypes[] = {DType::q8_0,  DType::q4_0,   DType::q5_1,   DType::q2_k,
                                 DType::q3_k,  DType::q4_k,   DType::q5_k,   DType::q6_k,
                                 DType::iq3_s, DType::iq4_xs, DType::iq4_nl, DType::mxfp4};

// Any bytes are blocks.
PlannedTensor random_matrix(DType type, std::uint64_t cols, std::uint64_t rows, ModelPlan& plan) {
  Random random(7);
  Bytes& bytes = plan.made.emplace_back(*row_bytes(type, cols) * rows);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return {.info = {.name = "output.weight", .type = type, .dims = {cols, rows}},
          .source_type = type,
          .source = bytes};
}

ByteView row_of(const PlannedTensor& tensor, std::uint64_t row) {
  const std::size_t size = tensor.source.size() / tensor.info.dims[1];
  return tensor.source.subspan(row * size, size);
}

TEST(QuantisedSplitTest, ReducedHeadsKeepTheBlocksOfTheirRows) {
  const Tokens tokens{0, 3, 17, 39};
  for (const DType type : kSplitTypes) {
    ModelPlan plan;
    const PlannedTensor head = random_matrix(type, 512, 40, plan);
    plan.tensors.push_back(head);
    ASSERT_TRUE(reduce_head(tokens, plan));
    const PlannedTensor& reduced = plan.tensors.front();
    EXPECT_TRUE(reduced.is_as_stored()) << traits(type).name;
    EXPECT_EQ(reduced.info.type, type);
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      EXPECT_TRUE(std::ranges::equal(row_of(reduced, row), row_of(head, tokens[row])))
          << traits(type).name;
    }
  }
}

// The projection of [embedding; feature] becomes two matrices.
TEST(QuantisedSplitTest, HalvesOfTheProjectionKeepItsBlocks) {
  for (const DType type : kSplitTypes) {
    ModelPlan plan;
    const PlannedTensor whole = random_matrix(type, 1024, 6, plan);
    ASSERT_TRUE(add_halves(whole, type, plan));
    ASSERT_EQ(plan.tensors.size(), 2u);
    for (std::size_t half = 0; half < 2; ++half) {
      const PlannedTensor& part = plan.tensors[half];
      EXPECT_TRUE(part.is_as_stored()) << traits(type).name;
      for (std::uint64_t row = 0; row < 6; ++row) {
        const ByteView all = row_of(whole, row);
        EXPECT_TRUE(std::ranges::equal(row_of(part, row),
                                       all.subspan(half * all.size() / 2, all.size() / 2)))
            << traits(type).name;
      }
    }
  }
}

TEST(QuantisedSplitTest, RefusesHalvesThatShareABlock) {
  ModelPlan plan;
  const PlannedTensor whole = random_matrix(DType::q4_k, 768, 2, plan);
  const auto added = add_halves(whole, DType::q4_k, plan);
  EXPECT_TRUE(fails_with(added, Errc::unsupported, "--type f16"));
}

// The head has more bits than the other matrices, as in the usual downloads.
TEST(QuantisedSplitTest, SplitDrafterHasTheTypesOfItsModel) {
  const Tokens tokens{1, 5, 7, 90};
  for (const std::string& family : testing::kMtpFamilies) {
    const testing::OwnDrafter plain(family);
    const test::TemporaryDirectory directory;
    const auto model = directory / "model.gguf";
    const auto bundle = directory / "bundle.gguf";
    ASSERT_TRUE(
        convert_model({.input = plain.target_path(), .output = model, .type = DType::q4_0}));
    const auto split = split_drafter({.model = model, .output = bundle, .draft_tokens = tokens});
    ASSERT_TRUE(split) << split.error().message;
    const GgufFile source = GgufFile::open(model).value();
    const GgufFile file = GgufFile::open(bundle).value();
    ASSERT_TRUE(read_mtp(file));
    const GgufTensor* from = source.find_tensor("output.weight");
    if (from == nullptr) from = source.find_tensor("token_embd.weight");
    const GgufTensor& head = *file.find_tensor("output.weight");
    ASSERT_EQ(head.type, from->type);
    const std::size_t row = head.bytes.size() / tokens.size();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(head.bytes.subspan(i * row, row),
                                     from->bytes.subspan(tokens[i] * row, row)));
    }
    EXPECT_EQ(file.find_tensor("fc_feature.weight")->type, DType::q4_0);
  }
}

}  // namespace
}  // namespace edgedraft
