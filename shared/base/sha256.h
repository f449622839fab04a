#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "shared/base/bytes.h"

namespace edgedraft {

using Digest = std::array<std::byte, 32>;

// SHA-256 over several pieces, through OpenSSL.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& update(ByteView bytes);
  Sha256& update(std::string_view text) { return update(as_byte_view(text)); }
  // Ends the digest. Call once.
  Digest finish();

 private:
  void* context_;
};

inline Digest sha256(ByteView bytes) {
  return Sha256().update(bytes).finish();
}

// SHA-256 over the ids, four little-endian bytes each. Both ends of a link compare it to check that
// they hold the same tokens.
inline Digest token_hash(std::span<const std::uint32_t> tokens) {
  return sha256(std::as_bytes(tokens));
}

}  // namespace edgedraft
