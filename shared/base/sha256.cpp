#include "shared/base/sha256.h"

#include <openssl/evp.h>

#include <new>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

EVP_MD_CTX* context_of(void* context) {
  return static_cast<EVP_MD_CTX*>(context);
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  // Every OpenSSL build has SHA-256, so only memory can be missing.
  if (context_ != nullptr && EVP_DigestInit_ex(context_of(context_), EVP_sha256(), nullptr) == 1) {
    return;
  }
  EVP_MD_CTX_free(context_of(context_));
  throw std::bad_alloc();
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(context_of(context_));
}

Sha256& Sha256::update(ByteView bytes) {
  EDGEDRAFT_CHECK(EVP_DigestUpdate(context_of(context_), bytes.data(), bytes.size()) == 1);
  return *this;
}

Digest Sha256::finish() {
  Digest digest;
  unsigned length = 0;
  EDGEDRAFT_CHECK(EVP_DigestFinal_ex(context_of(context_),
                                     reinterpret_cast<unsigned char*>(digest.data()),
                                     &length) == 1);
  EDGEDRAFT_CHECK(length == digest.size());
  return digest;
}

}  // namespace edgedraft
