#include "shared/net/identity.h"

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>

#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/net/certificate.h"

namespace edgedraft {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Memory = std::unique_ptr<BIO, decltype(&BIO_free)>;

constexpr long kValidSeconds = 10L * 365 * 24 * 60 * 60;
// A little in the past, for clients whose clock is slow.
constexpr long kValidBeforeSeconds = -24L * 60 * 60;

Error system_error(const std::filesystem::path& path) {
  return {Errc::io, path.string() + ": " + std::strerror(errno)};
}

Memory open_for_reading(const std::filesystem::path& file) {
  return Memory(BIO_new_file(file.c_str(), "r"), BIO_free);
}

Result<Key> read_key(const std::filesystem::path& file) {
  if (auto readable = check_pem_file(file); !readable) return readable.error();
  const Memory from = open_for_reading(file);
  bool encrypted = false;
  Key key(PEM_read_bio_PrivateKey(from.get(), nullptr, give_no_passphrase, &encrypted),
          EVP_PKEY_free);
  if (encrypted) return encrypted_key(file);
  if (!key) return Error{Errc::bad_file, file.string() + ": contains no private key in PEM form"};
  return key;
}

Result<Certificate> read_certificate(const std::filesystem::path& file) {
  if (auto readable = check_pem_file(file); !readable) return readable.error();
  const Memory from = open_for_reading(file);
  Certificate certificate(PEM_read_bio_X509(from.get(), nullptr, nullptr, nullptr), X509_free);
  if (!certificate) {
    return Error{Errc::bad_file, file.string() + ": contains no certificate in PEM form"};
  }
  return certificate;
}

// Writes atomically, readable by the owner only.
Result<void> write_file(const std::filesystem::path& file, BIO* content) {
  char* text = nullptr;
  const long length = BIO_get_mem_data(content, &text);
  std::string temporary = file.string() + ".XXXXXX";
  const int descriptor = mkstemp(temporary.data());  // mode 0600
  if (descriptor < 0) return system_error(file);
  const bool written =
      write(descriptor, text, static_cast<std::size_t>(length)) == length && fsync(descriptor) == 0;
  const bool closed = close(descriptor) == 0;
  if (written && closed && rename(temporary.c_str(), file.c_str()) == 0) {
    return boost::system::in_place_value;
  }
  const Error error = system_error(file);
  unlink(temporary.c_str());
  return error;
}

void add_extension(X509* to, int id, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, value);
  EDGEDRAFT_CHECK(extension != nullptr);
  X509_add_ext(to, extension, -1);
  X509_EXTENSION_free(extension);
}

std::int64_t expiry_of(const X509* certificate) {
  std::tm time{};
  return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &time) == 1 ? timegm(&time) : 0;
}

Certificate self_sign(EVP_PKEY* key) {
  Certificate certificate(X509_new(), X509_free);
  X509* x = certificate.get();
  X509_set_version(x, X509_VERSION_3);
  unsigned char serial[16];
  EDGEDRAFT_CHECK(RAND_bytes(serial, sizeof serial) == 1);
  // Positive and without a leading zero octet, which DER forbids.
  serial[0] = static_cast<unsigned char>((serial[0] & 0x3F) | 0x40);
  ASN1_STRING_set(X509_get_serialNumber(x), serial, sizeof serial);
  X509_gmtime_adj(X509_getm_notBefore(x), kValidBeforeSeconds);
  X509_gmtime_adj(X509_getm_notAfter(x), kValidSeconds);
  X509_NAME* name = X509_get_subject_name(x);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("edgedraft-server"), -1, -1, 0);
  X509_set_issuer_name(x, name);
  X509_set_pubkey(x, key);
  add_extension(x, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(x, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1,IP:::1");
  EDGEDRAFT_CHECK(X509_sign(x, key, EVP_sha256()) > 0);
  return certificate;
}

Result<void> create_key(const std::filesystem::path& file) {
  const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  EDGEDRAFT_CHECK(key != nullptr);
  const Memory pem(BIO_new(BIO_s_mem()), BIO_free);
  EDGEDRAFT_CHECK(
      PEM_write_bio_PrivateKey(pem.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return write_file(file, pem.get());
}

Result<void> create_certificate(const std::filesystem::path& file,
                                const std::filesystem::path& key_file) {
  const Result<Key> key = read_key(key_file);
  if (!key) return key.error();
  const Certificate certificate = self_sign(key->get());
  const Memory pem(BIO_new(BIO_s_mem()), BIO_free);
  EDGEDRAFT_CHECK(PEM_write_bio_X509(pem.get(), certificate.get()) == 1);
  return write_file(file, pem.get());
}

// Errors    io if that cannot be determined, e.g. without search permission for the directory
Result<bool> is_there(const std::filesystem::path& file) {
  std::error_code error;
  const bool there = std::filesystem::exists(file, error);
  if (error) return Error{Errc::io, file.string() + ": " + error.message()};
  return there;
}

std::filesystem::path key_file_in(const std::filesystem::path& state_directory) {
  return state_directory / "server-key.pem";
}

std::filesystem::path certificate_file_in(const std::filesystem::path& state_directory) {
  return state_directory / "server-cert.pem";
}

}  // namespace

Result<TlsIdentity> load_or_create_identity(const std::filesystem::path& state_directory) {
  const std::filesystem::path key_file = key_file_in(state_directory);
  const std::filesystem::path certificate_file = certificate_file_in(state_directory);
  std::error_code error;
  if (std::filesystem::create_directories(state_directory, error)) {
    std::filesystem::permissions(state_directory, std::filesystem::perms::owner_all, error);
  }
  if (error) return Error{Errc::io, state_directory.string() + ": " + error.message()};
  // Key first: a certificate can be made from it at any time.
  const Result<bool> has_key = is_there(key_file);
  if (!has_key) return has_key.error();
  if (!*has_key) {
    std::filesystem::remove(certificate_file, error);
    if (auto created = create_key(key_file); !created) return created.error();
  }
  const Result<bool> has_certificate = is_there(certificate_file);
  if (!has_certificate) return has_certificate.error();
  if (!*has_certificate) {
    auto created = create_certificate(certificate_file, key_file);
    if (!created) return created.error();
  }
  return load_identity(certificate_file, key_file);
}

Result<TlsIdentity> load_identity(const std::filesystem::path& state_directory) {
  return load_identity(certificate_file_in(state_directory), key_file_in(state_directory));
}

Result<TlsIdentity> load_identity(const std::filesystem::path& certificate_file,
                                  const std::filesystem::path& key_file) {
  const Result<Certificate> certificate = read_certificate(certificate_file);
  if (!certificate) return certificate.error();
  const Result<Key> key = read_key(key_file);
  if (!key) return key.error();
  if (X509_check_private_key(certificate->get(), key->get()) != 1) {
    return Error{Errc::bad_file, key_file.string() + " is not the key of the certificate in " +
                                     certificate_file.string()};
  }
  return TlsIdentity{.certificate_file = certificate_file,
                     .key_file = key_file,
                     .pin = pin_of(certificate->get()),
                     .expires_at = expiry_of(certificate->get())};
}

}  // namespace edgedraft
