#include "shared/net/receipt_signature.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>

#include "shared/net/certificate.h"

namespace edgedraft {
namespace {

using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

// Null for keys with a digest of their own, such as Ed25519.
const EVP_MD* digest_of(EVP_PKEY* key) {
  return EVP_PKEY_is_a(key, "RSA") || EVP_PKEY_is_a(key, "EC") ? EVP_sha256() : nullptr;
}

const unsigned char* data_of(ByteView bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

Bytes sign_receipt(NativeTls* tls, ByteView statement) {
  EVP_PKEY* const key = SSL_get_privatekey(tls);
  if (key == nullptr) return {};
  // Errors left in the thread's queue would look like a failure of the connection.
  ERR_set_mark();
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  Bytes signature;
  std::size_t size = 0;
  if (context && EVP_DigestSignInit(context.get(), nullptr, digest_of(key), nullptr, key) == 1 &&
      EVP_DigestSign(context.get(), nullptr, &size, data_of(statement), statement.size()) == 1) {
    signature.resize(size);
    const int signs =
        EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                       data_of(statement), statement.size());
    signature.resize(signs == 1 ? size : 0);
  }
  ERR_pop_to_mark();
  return signature;
}

Bytes server_certificate(NativeTls* tls) {
  const X509* const certificate = SSL_get0_peer_certificate(tls);
  unsigned char* der = nullptr;
  const int length = certificate != nullptr ? i2d_X509(certificate, &der) : 0;
  if (length <= 0) return {};
  const auto* const first = reinterpret_cast<const std::byte*>(der);
  Bytes bytes(first, first + length);
  OPENSSL_free(der);
  return bytes;
}

Result<std::string> check_receipt(ByteView certificate, ByteView statement, ByteView signature) {
  ERR_set_mark();
  const unsigned char* der = data_of(certificate);
  const std::unique_ptr<X509, decltype(&X509_free)> read(
      d2i_X509(nullptr, &der, static_cast<long>(certificate.size())), X509_free);
  EVP_PKEY* const key = read ? X509_get0_pubkey(read.get()) : nullptr;
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  const bool is_right =
      key != nullptr && context &&
      EVP_DigestVerifyInit(context.get(), nullptr, digest_of(key), nullptr, key) == 1 &&
      EVP_DigestVerify(context.get(), data_of(signature), signature.size(), data_of(statement),
                       statement.size()) == 1;
  ERR_pop_to_mark();
  if (key == nullptr) return Error{Errc::bad_file, "certificate: expected a certificate in DER"};
  if (!is_right) {
    return Error{Errc::untrusted,
                 "the signature does not match: the receipt was changed, or another key signed it"};
  }
  return pin_of(read.get());
}

}  // namespace edgedraft
