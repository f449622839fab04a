#include "shared/protocol/constant_time.h"

#include <openssl/crypto.h>

#include "shared/base/sha256.h"

namespace edgedraft {

bool equal_in_constant_time(ByteView a, ByteView b) {
  // Digests have equal length for secrets of any length.
  const Digest digest_a = sha256(a);
  const Digest digest_b = sha256(b);
  return CRYPTO_memcmp(digest_a.data(), digest_b.data(), digest_a.size()) == 0;
}

}  // namespace edgedraft
