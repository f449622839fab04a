#include "shared/protocol/frame.h"

#include <string>

namespace edgedraft {

void encode_frame_header(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> to) {
  store_le(to.data(), header.version);
  store_le(to.data() + 2, header.kind);
  store_le(to.data() + 4, header.payload_bytes);
}

Result<FrameHeader> decode_frame_header(ByteView bytes, std::uint32_t payload_bytes_max) {
  if (bytes.size() < kFrameHeaderBytes) {
    return Error{Errc::frame_truncated, "a frame's header is incomplete"};
  }
  const FrameHeader header{
      .version = load_le<std::uint16_t>(bytes.data()),
      .kind = load_le<std::uint16_t>(bytes.data() + 2),
      .payload_bytes = load_le<std::uint32_t>(bytes.data() + 4),
  };
  if (header.version != kFrameVersion) {
    return Error{Errc::version, "the peer sent a frame of version " +
                                    std::to_string(header.version) + "; this program supports " +
                                    std::to_string(kFrameVersion)};
  }
  if (header.payload_bytes > payload_bytes_max) {
    return Error{Errc::frame_too_large,
                 "the peer announced a frame of " + std::to_string(header.payload_bytes) +
                     " bytes; the maximum is " + std::to_string(payload_bytes_max)};
  }
  return header;
}

void FrameReader::append(ByteView bytes) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(offset_));
  offset_ = 0;
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<Frame>> FrameReader::next() {
  const ByteView rest = ByteView(buffer_).subspan(offset_);
  const Result<FrameHeader> header = decode_frame_header(rest, payload_bytes_max_);
  if (!header) {
    if (header.error().code == Errc::frame_truncated) return std::optional<Frame>();
    return header.error();
  }
  const ByteView body = rest.subspan(kFrameHeaderBytes);
  if (body.size() < header->payload_bytes) return std::optional<Frame>();
  const ByteView payload = body.first(header->payload_bytes);
  offset_ += kFrameHeaderBytes + payload.size();
  return std::optional<Frame>({header->kind, Bytes(payload.begin(), payload.end())});
}

}  // namespace edgedraft
