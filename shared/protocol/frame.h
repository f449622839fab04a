#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/protocol/limits.h"

namespace edgedraft {

inline constexpr std::size_t kFrameHeaderBytes = 8;

struct FrameHeader {
  std::uint16_t version = kFrameVersion;
  std::uint16_t kind = 0;
  std::uint32_t payload_bytes = 0;
};

// Layout    version u16 | kind u16 | payload_bytes u32, little-endian
void encode_frame_header(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> to);

// Reads a header from the start of `bytes`.
//
// Errors    frame_truncated  fewer than kFrameHeaderBytes: read more and try again
//           version          an unsupported version: close the connection
//           frame_too_large  payload_bytes above `payload_bytes_max`: close the connection
Result<FrameHeader> decode_frame_header(ByteView bytes, std::uint32_t payload_bytes_max);

struct Frame {
  std::uint16_t kind = 0;
  Bytes payload;
};

// Splits a byte stream into frames. Allocates a payload only after its header is checked, and grows
// it only as bytes arrive.
class FrameReader {
 public:
  explicit FrameReader(std::uint32_t payload_bytes_max) : payload_bytes_max_(payload_bytes_max) {}

  // Applies to frames whose header has not been read yet.
  void set_payload_bytes_max(std::uint32_t bytes) { payload_bytes_max_ = bytes; }

  void append(ByteView bytes);
  // Returns the next whole frame, or nullopt until more bytes arrive.
  // Errors    version, frame_too_large; both are fatal
  Result<std::optional<Frame>> next();
  // Bytes received of an incomplete frame. Valid right after next() returned nullopt.
  std::size_t partial_bytes() const { return buffer_.size() - offset_; }

 private:
  std::uint32_t payload_bytes_max_;
  Bytes buffer_;
  std::size_t offset_ = 0;  // offset of the first unread byte
};

}  // namespace edgedraft
