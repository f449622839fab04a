#include "shared/net/certificate.h"

#include <openssl/bio.h>
#include <openssl/x509.h>
#include <cstdint>
#include <memory>
#include <system_error>

#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/base/sha256.h"
#include "shared/base/text_file.h"

namespace edgedraft {
namespace {

// System CA bundles have some hundred kilobytes.
constexpr std::uint64_t kPemBytesMax = 64u << 20;

constexpr std::string_view kPinPrefix = "sha256:";

std::string date_text(const ASN1_TIME* time) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), BIO_free);
  ASN1_TIME_print(memory.get(), time);
  char* text = nullptr;
  const long length = BIO_get_mem_data(memory.get(), &text);
  return std::string(text, static_cast<std::size_t>(length));
}

}  // namespace

Result<void> check_pem_file(const std::filesystem::path& file) {
  std::error_code unknown;  // reading the file reports the error
  const auto status = std::filesystem::status(file, unknown);
  if (std::filesystem::is_other(status)) {
    return Error{Errc::usage,
                 file.string() +
                     ": not a regular file; save certificates and keys in regular files, because "
                     "they are read more than once"};
  }
  const auto text = read_text_file(file, kPemBytesMax);
  if (!text) return text.error();
  return {};
}

int give_no_passphrase(char*, int, int, void* wanted) {
  *static_cast<bool*>(wanted) = true;
  return -1;
}

Error encrypted_key(const std::filesystem::path& file) {
  return {Errc::bad_file,
          file.string() +
              ": the key is encrypted, and a passphrase cannot be entered: decrypt it "
              "with `openssl pkey -in FILE -out FILE`"};
}

std::string pin_of(const x509_st* certificate) {
  unsigned char* der = nullptr;
  const int length = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der);
  EDGEDRAFT_CHECK(length > 0);
  const Digest digest = sha256(std::as_bytes(std::span(der, static_cast<std::size_t>(length))));
  OPENSSL_free(der);
  return std::string(kPinPrefix) + to_hex(digest);
}

Result<std::string> parse_pin(const std::string& text) {
  if (text.starts_with(kPinPrefix)) {
    const auto bytes = from_hex(std::string_view(text).substr(kPinPrefix.size()));
    if (bytes && bytes->size() == std::tuple_size_v<Digest>) {
      return std::string(kPinPrefix) + to_hex(*bytes);
    }
  }
  return Error{Errc::usage,
               "'" + text +
                   "' is not a pin: expected sha256: and 64 hexadecimal digits, as in the "
                   "server's 'ready' line"};
}

Result<void> check_dates(const x509_st* certificate) {
  const ASN1_TIME* from = X509_get0_notBefore(certificate);
  const ASN1_TIME* until = X509_get0_notAfter(certificate);
  // Both return 0 for an unreadable date, which must not be trusted.
  if (X509_cmp_current_time(from) >= 0) {
    return Error{Errc::untrusted, "the server's certificate is not valid before " +
                                      date_text(from) + ": check the clocks of both machines"};
  }
  if (X509_cmp_current_time(until) <= 0) {
    return Error{Errc::untrusted, "the server's certificate expired on " + date_text(until) +
                                      ": renew it on the server"};
  }
  return boost::system::in_place_value;
}

}  // namespace edgedraft
