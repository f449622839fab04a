#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "shared/base/sha256.h"
#include "shared/base/text_file.h"
#include "shared/tensor/dtype.h"

// tests/data/blocks has 16 blocks of 256 elements per type, as llama.cpp quantized them; the
// digests are of its decoded float32.
namespace edgedraft {
namespace {

using Floats = std::vector<float>;

struct Golden {
  DType type;
  float first[2];
  const char* sha256;
};
constexpr Golden kGoldens[] = {
    {DType::q2_k,
     {0.09830475f, 0.09830475f},
     "5c033c4e1681824389d5fe7cfe9d1f979c84a311fe6aba62a03eab1977862017"},
    {DType::q3_k,
     {0.10491943f, 0.078689575f},
     "3205ba38a15e09f628e8c3f491fc64601df1e22c23cb00aad338fd4990e1e39d"},
    {DType::iq4_xs,
     {0.11125255f, 0.086251974f},
     "a6c7a419736fdfaef777b86584584a3e43c72a49513487be382c9141ff449026"},
    {DType::iq3_s,
     {0.12058997f, 0.09866452f},
     "3993d6d936d589a9590ec7f851507dd542b2845d1e2ae4fed219a77ca5d3569a"},
    {DType::iq3_xxs,
     {0.12299323f, 0.0956614f},
     "010a05b49d819a5359f4234865f8e4dbce6fbb85b2f59411281d228f69ff8c75"},
    {DType::iq2_s,
     {0.10552895f, 0.06135404f},
     "796b23c8498b0dd7188026528865785c270e72f9ffea09fe0df8c1e05ce32bf0"},
    {DType::iq2_xs,
     {0.111018896f, 0.06454587f},
     "bdf650bb36c46fe6302f3019f2a17d28bec7ef55f593810cf090c5e1127cf8f3"},
    {DType::iq2_xxs,
     {0.11636531f, 0.11636531f},
     "950d6dac7d0d32dc3227a11104ef3473d81cc22a6b549cde297e97db3c8aa669"},
    {DType::iq4_nl,
     {0.11118889f, 0.08620262f},
     "e370a1971104e43ea442a77986df71caa2867b474f9ce14eb4b7cb5d98eb8c3d"},
    {DType::mxfp4,
     {0.09375f, 0.09375f},
     "dae07e82a20dc3a08f5c15bc728dc7516863d22fec71b871b7db30477d1f2483"},
};

class ReadOnlyTypeTest : public ::testing::TestWithParam<Golden> {};

TEST_P(ReadOnlyTypeTest, DecodesToReferenceBytes) {
  const Golden& golden = GetParam();
  const auto text = read_text_file(
      std::string(EDGEDRAFT_TEST_DATA "/blocks/") + traits(golden.type).name + ".bin", 1 << 20);
  ASSERT_TRUE(text);
  Floats decoded(16 * 256);
  dequantize_row(golden.type, std::as_bytes(std::span(*text)), decoded);
  EXPECT_EQ(decoded[0], golden.first[0]);
  EXPECT_EQ(decoded[1], golden.first[1]);
  EXPECT_EQ(to_hex(sha256(std::as_bytes(std::span(decoded)))), golden.sha256);
}

INSTANTIATE_TEST_SUITE_P(Types, ReadOnlyTypeTest, testing::ValuesIn(kGoldens),
                         [](const auto& golden) {
                           return std::string(traits(golden.param.type).name);
                         });

TEST(Mxfp4Test, DecodesEveryExponent) {
  Bytes block(17, std::byte{0x22});  // all elements 1
  for (unsigned exponent = 0; exponent < 256; ++exponent) {
    block[0] = static_cast<std::byte>(exponent);
    Floats decoded(32);
    dequantize_row(DType::mxfp4, block, decoded);
    EXPECT_EQ(decoded, Floats(32, std::ldexp(2.0f, static_cast<int>(exponent) - 128)));
  }
}

}  // namespace
}  // namespace edgedraft
