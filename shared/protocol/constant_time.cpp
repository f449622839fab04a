#include "shared/protocol/constant_time.h"

#include <openssl/crypto.h>

namespace edgedraft {

bool equal_in_constant_time(ByteView a, ByteView b) {
  // Digests have equal length for secrets of any length.
  return equal_in_constant_time(sha256(a), sha256(b));
}

bool equal_in_constant_time(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace edgedraft
