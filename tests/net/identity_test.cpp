#include "shared/net/identity.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <vector>

#include "tests/net/net_support.h"
#include "tests/support/expect.h"

namespace edgedraft {
namespace {

namespace fs = std::filesystem;

void encrypt_key(const fs::path& file) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> from(BIO_new_file(file.c_str(), "r"), BIO_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(from.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  const std::unique_ptr<BIO, decltype(&BIO_free)> to(BIO_new_file(file.c_str(), "w"), BIO_free);
  unsigned char passphrase[] = "secret";
  ASSERT_EQ(PEM_write_bio_PrivateKey(to.get(), key.get(), EVP_aes_256_cbc(), passphrase,
                                     sizeof passphrase - 1, nullptr, nullptr),
            1);
}

TEST(IdentityTest, IsCreatedOnceAndKept) {
  const test::TemporaryDirectory directory;
  const auto first = load_or_create_identity(directory / "state").value();
  EXPECT_TRUE(first.pin.starts_with("sha256:"));
  EXPECT_EQ(first.pin.size(), 7u + 64u);
  const auto second = load_or_create_identity(directory / "state");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->pin, first.pin);
  EXPECT_EQ(load_identity(first.certificate_file, first.key_file)->pin, first.pin);
}

TEST(IdentityTest, FilesAreAccessibleToOwnerOnly) {
  const test::TemporaryDirectory directory;
  const auto identity = load_or_create_identity(directory / "state").value();
  const auto others = fs::perms::group_all | fs::perms::others_all;
  EXPECT_EQ(fs::status(identity.key_file).permissions() & others, fs::perms::none);
  EXPECT_EQ(fs::status(identity.certificate_file).permissions() & others, fs::perms::none);
  EXPECT_EQ(fs::status(directory / "state").permissions() & others, fs::perms::none);
}

TEST(IdentityTest, RecreatesLostCertificateFromKey) {
  const test::TemporaryDirectory directory;
  const auto first = load_or_create_identity(directory.path()).value();
  fs::remove(first.certificate_file);
  EXPECT_EQ(load_or_create_identity(directory.path()).value().pin, first.pin);
}

// Random serial octets sometimes start with a zero octet; such a certificate is unreadable.
TEST(IdentityTest, SerialNumbersHaveNoLeadingZeroOctet) {
  const test::TemporaryDirectory directory;
  for (int i = 0; i < 50; ++i) {
    const auto identity = load_or_create_identity(directory.path()).value();
    const std::unique_ptr<BIO, decltype(&BIO_free)> file(
        BIO_new_file(identity.certificate_file.c_str(), "r"), BIO_free);
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(
        PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr), X509_free);
    ASSERT_NE(certificate, nullptr);
    const ASN1_STRING* serial = X509_get0_serialNumber(certificate.get());
    EXPECT_EQ(ASN1_STRING_length(serial), 16);
    EXPECT_EQ(ASN1_STRING_get0_data(serial)[0] >> 6, 1);
    fs::remove(identity.certificate_file);
  }
}

TEST(IdentityTest, LostKeyCreatesNewIdentity) {
  const test::TemporaryDirectory directory;
  const auto first = load_or_create_identity(directory.path()).value();
  fs::remove(first.key_file);
  const auto second = load_or_create_identity(directory.path()).value();
  EXPECT_NE(second.pin, first.pin);
}

// Clients pin the certificate: loading must not create another.
TEST(IdentityTest, LoadingCreatesNothing) {
  for (const auto lost : {&TlsIdentity::certificate_file, &TlsIdentity::key_file}) {
    const test::TemporaryDirectory directory;
    const auto made = load_or_create_identity(directory.path()).value();
    EXPECT_EQ(load_identity(directory.path()).value().pin, made.pin);
    const fs::path& file = made.*lost;
    fs::remove(file);
    const auto loaded = load_identity(directory.path());
    EXPECT_TRUE(fails_with(loaded, Errc::io, file.string() + ": No such file"));
    EXPECT_FALSE(fs::exists(file));
  }
}

// Not even root can follow the link.
TEST(IdentityTest, ReportsKeyThatIsASymlinkLoop) {
  const test::TemporaryDirectory directory;
  fs::create_symlink("server-key.pem", directory / "server-key.pem");
  const auto identity = load_or_create_identity(directory.path());
  ASSERT_TRUE(fails_with(identity, Errc::io, "server-key.pem"));
}

TEST(IdentityTest, NamesDamagedFile) {
  const test::TemporaryDirectory directory;
  const auto identity = load_or_create_identity(directory.path()).value();
  std::ofstream(identity.key_file, std::ios::trunc) << "no key";
  const auto damaged = load_or_create_identity(directory.path());
  EXPECT_TRUE(fails_with(damaged, Errc::bad_file, "server-key.pem"));
}

// OpenSSL would prompt for a passphrase on the terminal and wait.
TEST(IdentityTest, RefusesEncryptedKeyWithoutPrompting) {
  const test::TemporaryDirectory directory;
  const auto identity = load_or_create_identity(directory.path()).value();
  encrypt_key(identity.key_file);
  for (const Error& error : {load_identity(directory.path()).error(),
                             make_server_context({.certificate_file = identity.certificate_file,
                             .key_file = identity.key_file})
                                 .error()}) {
    EXPECT_EQ(error.code, Errc::bad_file);
    EXPECT_TRUE(contains(error.message, "server-key.pem: the key is encrypted"));
  }
}

TEST(IdentityTest, NamesMissingFiles) {
  const test::TemporaryDirectory directory;
  const auto identity = load_or_create_identity(directory.path()).value();
  const fs::path lost = directory / "lost.pem";
  const std::vector<Error> errors = {
      make_server_context({.certificate_file = lost, .key_file = identity.key_file}).error(),
      make_server_context({.certificate_file = identity.certificate_file, .key_file = lost})
          .error(),
      make_server_context({.certificate_file = identity.certificate_file,
                           .key_file = identity.key_file,
                           .client_ca_file = lost})
          .error(),
      make_client_context({.ca_file = lost}).error()};
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, Errc::io);
    EXPECT_TRUE(contains(error.message, "lost.pem: No such file"));
  }
}

// A pipe can be read only once, and waiting for data could block forever.
TEST(IdentityTest, RefusesPipesAsCertificatesAndKeys) {
  const test::TemporaryDirectory directory;
  const auto identity = load_or_create_identity(directory.path()).value();
  const fs::path pipe = directory / "pipe.pem";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::vector<Error> errors = {
      load_identity(pipe, identity.key_file).error(),
      load_identity(identity.certificate_file, pipe).error(),
      make_server_context({.certificate_file = identity.certificate_file,
                           .key_file = identity.key_file,
                           .client_ca_file = pipe})
          .error(),
      make_client_context({.ca_file = pipe}).error()};
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, Errc::usage);
    EXPECT_TRUE(contains(error.message, "pipe.pem: not a regular file"));
  }
}

TEST(IdentityTest, RefusesKeyOfAnotherCertificate) {
  const test::TemporaryDirectory directory;
  const auto a = make_identity(directory.path(), "a", {});
  const auto b = make_identity(directory.path(), "b", {});
  EXPECT_EQ(load_identity(a.certificate_file, b.key_file).error().code, Errc::bad_file);
  EXPECT_FALSE(
      make_server_context({.certificate_file = a.certificate_file, .key_file = b.key_file}));
}

TEST(IdentityTest, RefusesWorldReadableKeyOnBothSides) {
  const test::TemporaryDirectory directory;
  const auto identity = make_identity(directory.path(), "a", {});
  fs::permissions(identity.key_file, fs::perms::group_read, fs::perm_options::add);
  const auto make_server = [&] {
    return make_server_context(
        {.certificate_file = identity.certificate_file, .key_file = identity.key_file});
  };
  EXPECT_TRUE(make_server());
  fs::permissions(identity.key_file, fs::perms::others_read, fs::perm_options::add);
  const auto server = make_server();
  const auto client = make_client_context({.pin = identity.pin,
                                           .certificate_file = identity.certificate_file,
                                           .key_file = identity.key_file});
  ASSERT_FALSE(server);
  ASSERT_FALSE(client);
  for (const Error& error : {server.error(), client.error()}) {
    EXPECT_EQ(error.code, Errc::usage);
    EXPECT_TRUE(contains(error.message, "a-key.pem"));
    EXPECT_TRUE(contains(error.message, "chmod o="));
  }
}

TEST(IdentityTest, ReportsUnwritableDirectory) {
  EXPECT_TRUE(fails_with(load_or_create_identity("/proc/edgedraft-test"), Errc::io));
}

}  // namespace
}  // namespace edgedraft
