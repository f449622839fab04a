#include "shared/protocol/frame.h"

#include <gtest/gtest.h>

#include "shared/base/random.h"
#include "shared/protocol/message.h"

namespace edgedraft {
namespace {

Bytes header(std::uint16_t version, std::uint16_t kind, std::uint32_t payload_bytes) {
  Bytes bytes(kFrameHeaderBytes);
  encode_frame_header({version, kind, payload_bytes}, std::span(bytes).first<kFrameHeaderBytes>());
  return bytes;
}

TEST(FrameTest, HeaderIsVersionKindLengthInLittleEndian) {
  EXPECT_EQ(to_hex(header(1, 5, 0x01020304)), "0100050004030201");
}

TEST(FrameTest, RejectsTruncatedHeader) {
  const Bytes bytes = header(1, 5, 0);
  for (std::size_t count = 0; count < kFrameHeaderBytes; ++count) {
    EXPECT_EQ(decode_frame_header(ByteView(bytes).first(count), 100).error().code,
              Errc::frame_truncated);
  }
  EXPECT_TRUE(decode_frame_header(bytes, 100));
}

TEST(FrameTest, AcceptsPayloadUpToLimit) {
  EXPECT_TRUE(decode_frame_header(header(1, 5, 100), 100));
  EXPECT_EQ(decode_frame_header(header(1, 5, 101), 100).error().code, Errc::frame_too_large);
  EXPECT_EQ(decode_frame_header(header(1, 5, 0xFFFFFFFF), 100).error().code, Errc::frame_too_large);
}

TEST(FrameTest, RejectsUnknownVersionBeforeLength) {
  EXPECT_EQ(decode_frame_header(header(2, 5, 0xFFFFFFFF), 100).error().code, Errc::version);
  EXPECT_EQ(decode_frame_header(header(0, 5, 0), 100).error().code, Errc::version);
}

TEST(FrameReaderTest, ReassemblesFramesSplitAnywhere) {
  Bytes stream;
  for (const std::uint32_t count : {0u, 1u, 31u, 4096u, 7u}) {
    Bytes frame = header(1, static_cast<std::uint16_t>(count), count);
    frame.resize(frame.size() + count, std::byte{0xAB});
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    FrameReader reader(5000);
    std::vector<std::size_t> sizes;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t count = std::min<std::size_t>(1 + random.below(700), stream.size() - at);
      reader.append(ByteView(stream).subspan(at, count));
      at += count;
      for (;;) {
        const auto frame = reader.next();
        ASSERT_TRUE(frame) << "seed " << seed;
        if (!*frame) break;
        EXPECT_EQ((*frame)->kind, (*frame)->payload.size());
        sizes.push_back((*frame)->payload.size());
      }
    }
    EXPECT_EQ(sizes, (std::vector<std::size_t>{0, 1, 31, 4096, 7})) << "seed " << seed;
    EXPECT_EQ(reader.partial_bytes(), 0u);
  }
}

TEST(FrameReaderTest, RejectsOversizeFrameByHeader) {
  FrameReader reader(16);
  reader.append(header(1, 1, 17));
  EXPECT_EQ(reader.next().error().code, Errc::frame_too_large);
}

TEST(FrameReaderTest, RaisedLimitAppliesToNextFrame) {
  FrameReader reader(4);
  Bytes bytes = header(1, 1, 4);
  bytes.resize(bytes.size() + 4);
  const Bytes second = header(1, 2, 5);
  bytes.insert(bytes.end(), second.begin(), second.end());
  bytes.resize(bytes.size() + 5);
  reader.append(bytes);
  ASSERT_TRUE(reader.next());
  reader.set_payload_bytes_max(5);
  const auto frame = reader.next();
  ASSERT_TRUE(frame && *frame);
  EXPECT_EQ((*frame)->payload.size(), 5u);
}

}  // namespace
}  // namespace edgedraft
