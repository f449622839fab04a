// Data that feature drafters receive: its size in a verdict, and its equality with the target's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <variant>
#include <vector>

#include "shared/drafting/eagle/eagle_kind.h"
#include "shared/drafting/medusa/medusa_kind.h"
#include "shared/protocol/activation_codec.h"
#include "shared/protocol/frame.h"
#include "shared/runtime/decoder.h"
#include "tests/support/outgoing.h"
#include "tests/support/overhead.h"
#include "tests/support/toy_feature_drafters.h"

namespace edgedraft {
namespace {

using testing::ToyDecoder;

constexpr std::uint32_t kTokens = 64;

class FeatureTapTest : public ::testing::Test {
 protected:
  FeatureTapTest() {
    std::vector<std::uint32_t> tokens;
    for (std::uint32_t i = 0; i < kTokens; ++i) tokens.push_back((7 * i * i + 3) % 64);
    decoder_.append(cache_, tokens);
  }

  // Verdict on the first `count` new tokens for a drafter with this tap.
  wire::Verdict verdict(Tap& tap, std::uint32_t count) {
    const ActivationLayout layout({tap.scale_groups().begin(), tap.scale_groups().end()});
    std::vector<float> rows(std::size_t{count} * layout.cols());
    tap.read(cache_, 0, count, rows);
    return {.round = 2,
            .length = kTokens,
            .next = 5,
            .tokens = std::vector<std::uint32_t>(count - 1, 7),
            .activations = quantize_rows(layout, rows),
            .queue_us = 1,
            .verify_us = 2};
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  ToyDecoder toy_{4};
  std::vector<std::uint32_t> states_ = {toy_.config.layer_count + 1};
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, 128, states_};
  KvCache cache_ = decoder_.make_cache();
  std::uint32_t dim_ = toy_.config.layer.dim;
};

// 6A + A E: a token costs its feature of E bytes, four bytes of id and two of the feature's scale.
// A verdict also has fields of fixed size.
TEST_F(FeatureTapTest, EagleVerdictSizeMatchesFormula) {
  const testing::ToyEagle eagle(toy_, 3);
  const auto model = make_eagle_model({.config = eagle.config, .tensors = eagle.tensors});
  const auto tap = model->make_tap(*backend_);
  ASSERT_EQ(tap->scale_groups().size(), 1u);
  EXPECT_EQ(tap->scale_groups()[0], dim_);
  // The token's id, its feature and the feature's scale.
  const std::size_t per_token = 4 + dim_ + 2;
  // Vectors are padded to four bytes, the message to its largest field.
  constexpr std::uint32_t kPadding = 8;
  const auto bytes = [&](std::uint32_t count) { return wire::encode(verdict(*tap, count)).size(); };
  const std::size_t fixed = bytes(8) - 8 * per_token;
  EXPECT_LE(fixed, kFrameHeaderBytes + kVerdictTableBytesMax);
  for (std::uint32_t count = 2; count <= kTokens; ++count) {
    EXPECT_EQ(verdict(*tap, count).activations.size(), count * (dim_ + 2));
    EXPECT_NEAR(static_cast<double>(bytes(count)), static_cast<double>(fixed + count * per_token),
                kPadding)
        << count;
    if (count % 8 == 0) {
      EXPECT_EQ(bytes(count), fixed + count * per_token) << count;
    }
  }
}

// 4A + E: its heads read only the newest feature.
TEST_F(FeatureTapTest, MedusaVerdictHasOneFeaturePerVerdict) {
  const testing::ToyMedusa medusa(toy_, 3, testing::HeadOutputs::shared);
  const auto model = make_medusa_model({.config = medusa.config, .tensors = medusa.tensors});
  ASSERT_TRUE(model->facts().newest_row);
  const auto tap = model->make_tap(*backend_);
  const auto bytes = [&](std::uint32_t count) {
    wire::Verdict brought = verdict(*tap, verdict_rows(0, true));
    brought.tokens.assign(count - 1, 7);
    return wire::encode(brought).size();
  };
  EXPECT_LE(bytes(1), kFrameHeaderBytes + kVerdictTableBytesMax + 3 + dim_);
  for (std::uint32_t count = 2; count <= kTokens; ++count) {
    EXPECT_LE(bytes(count), bytes(1) + 4 * count + 8) << count;
  }
}

// MEDUSA's heads read the same features. Decoded values equal the target's to half a step of eight
// bits.
TEST_F(FeatureTapTest, TransmitsTargetFeatures) {
  const testing::ToyEagle eagle(toy_, 3);
  const testing::ToyMedusa medusa(toy_, 3, testing::HeadOutputs::shared);
  const auto eagle_tap =
      make_eagle_model({.config = eagle.config, .tensors = eagle.tensors})->make_tap(*backend_);
  const auto medusa_tap =
      make_medusa_model({.config = medusa.config, .tensors = medusa.tensors})->make_tap(*backend_);
  const Bytes frame = wire::encode(verdict(*eagle_tap, 20));
  const auto header = decode_frame_header(frame, static_cast<std::uint32_t>(frame.size()));
  ASSERT_TRUE(header);
  const auto sent = wire::decode(header->kind, ByteView(frame).subspan(kFrameHeaderBytes));
  ASSERT_TRUE(sent) << sent.error().message;
  const auto& arrived = std::get<wire::Verdict>(*sent);
  EXPECT_EQ(arrived.activations, verdict(*medusa_tap, 20).activations);
  const auto values = dequantize_rows(ActivationLayout({dim_}), 20, arrived.activations);
  ASSERT_TRUE(values);
  std::vector<float> features(20 * dim_);
  eagle_tap->read(cache_, 0, 20, features);
  for (std::uint32_t row = 0; row < 20; ++row) {
    const auto begin = features.begin() + row * dim_;
    const float largest = std::abs(*std::max_element(
        begin, begin + dim_, [](float a, float b) { return std::abs(a) < std::abs(b); }));
    for (std::uint32_t i = 0; i < dim_; ++i) {
      // The scale is also rounded to half precision.
      EXPECT_NEAR((*values)[row * dim_ + i], begin[i], largest / 127 * 0.6f);
    }
  }
}

}  // namespace
}  // namespace edgedraft
