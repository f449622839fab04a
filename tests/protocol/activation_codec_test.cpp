#include "shared/protocol/activation_codec.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <limits>

#include "shared/tensor/dtype.h"
#include "tests/protocol/support.h"

namespace edgedraft {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> round_trip(const ActivationLayout& layout, std::span<const float> rows) {
  const Bytes packed = quantize_rows(layout, rows);
  const auto count = static_cast<std::uint32_t>(rows.size() / layout.cols());
  EXPECT_EQ(packed.size(), std::size_t{count} * layout.row_bytes());
  return *dequantize_rows(layout, count, packed);
}

TEST(ActivationCodecTest, EncodesKnownExample) {
  // One row of two groups: maxima of 127 and 254 give scales 1 and 2.
  const ActivationLayout layout({3, 2});
  const std::vector<float> row = {127, -1, 0.4f, -254, 3};
  EXPECT_EQ(to_hex(quantize_rows(layout, row)),
            "7fff00"
            "8102"
            "003c"
            "0040");
  EXPECT_EQ(round_trip(layout, row), (std::vector<float>{127, -1, 0, -254, 4}));
}

class ActivationCodecSizes : public ::testing::TestWithParam<std::uint32_t> {};

// Half a step, plus the float16 rounding of the scale at the group's largest value.
TEST_P(ActivationCodecSizes, ErrorIsAtMostHalfAStep) {
  const std::uint32_t cols = GetParam();
  Random random(cols);
  const ActivationLayout layout({cols, 1, cols + 3});
  const std::uint32_t count = 5;
  const std::vector<float> rows = random_rows(random, std::size_t{count} * layout.cols());
  const std::vector<float> decoded = round_trip(layout, rows);
  std::size_t offset = 0;
  for (std::uint32_t row = 0; row < count; ++row) {
    for (const std::uint32_t group : layout.scale_groups()) {
      float largest = 0;
      for (std::size_t i = 0; i < group; ++i) {
        largest = std::max(largest, std::abs(rows[offset + i]));
      }
      const float step = largest / 127;
      for (std::size_t i = 0; i < group; ++i, ++offset) {
        EXPECT_LE(std::abs(decoded[offset] - rows[offset]), step * 0.5f + largest * 0x1p-11f);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ActivationCodecSizes, testing::Values(1, 31, 32, 33, 127, 2048));

TEST(ActivationCodecTest, NonFiniteValuesDoNotAffectTheirGroup) {
  const ActivationLayout layout({4});
  const std::vector<float> decoded =
      round_trip(layout, std::vector<float>{kNan, kInfinity, -kInfinity, 12.7f});
  EXPECT_EQ(decoded[0], 0);
  EXPECT_NEAR(decoded[1], 12.7f, 0.01f);
  EXPECT_NEAR(decoded[2], -12.7f, 0.01f);
  EXPECT_NEAR(decoded[3], 12.7f, 0.01f);
}

TEST(ActivationCodecTest, ExtremesStayFinite) {
  const ActivationLayout layout({2});
  for (const float x : {0.0f, 1e-45f, 1e-20f, 65504.0f, 3e38f}) {
    for (const float y : round_trip(layout, std::vector<float>{x, -x})) {
      EXPECT_TRUE(std::isfinite(y)) << x;
    }
  }
}

TEST(ActivationCodecTest, RejectsInvalidScales) {
  const ActivationLayout layout({2});
  Bytes packed = quantize_rows(layout, std::vector<float>{1, 2});
  const auto code_with_scale = [&](std::uint16_t half) {
    store_le(packed.data() + 2, half);
    const auto rows = dequantize_rows(layout, 1, packed);
    return rows ? Errc::cancelled : rows.error().code;
  };
  EXPECT_EQ(code_with_scale(float_to_half(kNan)), Errc::bad_message);
  EXPECT_EQ(code_with_scale(float_to_half(kInfinity)), Errc::bad_message);
  EXPECT_EQ(code_with_scale(float_to_half(-1)), Errc::bad_message);
  EXPECT_EQ(code_with_scale(0), Errc::cancelled);
  EXPECT_EQ(code_with_scale(1), Errc::cancelled) << "a denormal is valid";
}

TEST(ActivationCodecTest, RejectsWrongSize) {
  const ActivationLayout layout({3});
  EXPECT_FALSE(dequantize_rows(layout, 1, Bytes(4)));
  EXPECT_FALSE(dequantize_rows(layout, 1, Bytes(6)));
  EXPECT_FALSE(dequantize_rows(layout, 0xFFFFFFFF, Bytes(5)));
  EXPECT_TRUE(dequantize_rows(ActivationLayout(), 7, {})->empty());
}

// A verdict is the largest frame that a client accepts.
TEST(ActivationCodecTest, ChunkIsNoLargerThanVerdict) {
  for (const std::uint32_t cols : {1u, 2u, 7u, 132u, 254u, 255u, 4096u, 32768u}) {
    const ActivationLayout layout({cols});
    const std::uint32_t count = chunk_rows(layout);
    EXPECT_GE(count, 1u);
    EXPECT_LE(count, kDraftNodesMax + 1) << cols;
    EXPECT_LE(std::uint64_t{count} * layout.row_bytes(),
              activation_payload_bytes_max(layout, kDraftNodesMax + 1));
  }
  EXPECT_EQ(chunk_rows(ActivationLayout({1022})), 64u) << "64 rows fill a chunk";
}

TEST(ActivationCompressionTest, RestoresCompressedRows) {
  Random random(1);
  const ActivationLayout layout({64, 64});
  for (const std::uint32_t count : {1u, 2u, 33u}) {
    const Bytes packed =
        quantize_rows(layout, random_rows(random, std::size_t{count} * layout.cols()));
    const wire::Activations chunk = compress_activations(4, 10, count, packed, wire::Codec::gzip);
    EXPECT_EQ(chunk.round, 4u);
    EXPECT_EQ(chunk.first, 10u);
    EXPECT_EQ(*decompress_activations(layout, chunk), packed);
    EXPECT_LE(chunk.data.size(), packed.size());
  }
}

TEST(ActivationCompressionTest, SmoothRowsShrink) {
  const ActivationLayout layout({1024});
  std::vector<float> rows(8 * 1024);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 100);
  const Bytes packed = quantize_rows(layout, rows);
  const wire::Activations chunk = compress_activations(1, 0, 8, packed, wire::Codec::gzip);
  EXPECT_EQ(chunk.codec, wire::Codec::gzip);
  EXPECT_LT(chunk.data.size(), packed.size() / 10);
}

TEST(ActivationCompressionTest, SendsBombLikeRowsUncompressed) {
  const ActivationLayout layout({32768});
  const Bytes packed = quantize_rows(layout, std::vector<float>(2 * 32768, 0.0f));
  const wire::Activations chunk = compress_activations(1, 0, 2, packed, wire::Codec::gzip);
  EXPECT_EQ(chunk.codec, wire::Codec::none);
  EXPECT_EQ(*decompress_activations(layout, chunk), packed);
}

constexpr int kGzip = 16 + MAX_WBITS;

Bytes compressed_zeros(std::size_t count, int window_bits) {
  Bytes zeros(count);
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes out(deflateBound(&stream, count));
  stream.next_in = reinterpret_cast<Bytef*>(zeros.data());
  stream.avail_in = static_cast<uInt>(zeros.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(ActivationCompressionTest, RejectsDecompressionBomb) {
  const ActivationLayout layout({30000, 2766});
  const std::uint32_t count = 200;
  const wire::Activations bomb{
      .round = 1,
      .first = 0,
      .count = count,
      .codec = wire::Codec::gzip,
      .data = compressed_zeros(std::size_t{count} * layout.row_bytes(), kGzip)};
  ASSERT_LT(bomb.data.size() * 500, std::size_t{count} * layout.row_bytes());
  EXPECT_EQ(decompress_activations(layout, bomb).error().code, Errc::bad_message);
}

TEST(ActivationCompressionTest, RejectsDamagedStreams) {
  Random random(3);
  const ActivationLayout layout({100});
  const std::uint32_t count = 4;
  const Bytes packed =
      quantize_rows(layout, std::vector<float>(std::size_t{count} * layout.cols(), 1.5f));
  const wire::Activations good = compress_activations(1, 0, count, packed, wire::Codec::gzip);
  ASSERT_EQ(good.codec, wire::Codec::gzip);

  for (std::size_t bytes = 0; bytes < good.data.size(); ++bytes) {
    wire::Activations cut = good;
    cut.data.resize(bytes);
    EXPECT_FALSE(decompress_activations(layout, cut)) << "cut to " << bytes;
  }
  wire::Activations trailed = good;
  trailed.data.push_back(std::byte{0});
  EXPECT_FALSE(decompress_activations(layout, trailed));

  wire::Activations more_rows = good;
  more_rows.count = count + 1;
  EXPECT_FALSE(decompress_activations(layout, more_rows));
  more_rows.count = count - 1;
  EXPECT_FALSE(decompress_activations(layout, more_rows));

  wire::Activations raw = good;
  raw.codec = wire::Codec::none;
  EXPECT_FALSE(decompress_activations(layout, raw));

  for (int i = 0; i < 500; ++i) {
    wire::Activations flipped = good;
    flipped.data[random.below(flipped.data.size())] ^=
        static_cast<std::byte>(1u << random.below(8));
    const auto decoded = decompress_activations(layout, flipped);
    if (decoded) {
      EXPECT_EQ(*decoded, packed) << "only unused bytes may differ, such as gzip's time";
    }
  }
}

TEST(ActivationCompressionTest, RejectsZlibContainer) {
  const ActivationLayout layout({100});
  wire::Activations chunk{.round = 1, .count = 4, .codec = wire::Codec::gzip};
  chunk.data = compressed_zeros(4 * layout.row_bytes(), MAX_WBITS);
  EXPECT_EQ(decompress_activations(layout, chunk).error().code, Errc::bad_message);
}

TEST(ActivationCodecTest, SendsRowsUnchangedWithoutCompression) {
  const ActivationLayout layout({100});
  const Bytes packed = quantize_rows(layout, std::vector<float>(400, 1.5f));
  const wire::Activations chunk = compress_activations(1, 0, 4, packed, wire::Codec::none);
  EXPECT_EQ(chunk.codec, wire::Codec::none);
  EXPECT_EQ(chunk.data, packed);
}

}  // namespace
}  // namespace edgedraft
