#pragma once

#include <filesystem>
#include <string>

#include "shared/base/error.h"

struct x509_st;  // OpenSSL's X509
namespace edgedraft {

// Checks that the file can be read repeatedly: OpenSSL reports no reason. Both programs reread
// their files at start and when they renew them, so a pipe is not accepted.
// Errors    io naming the file; usage for a pipe, a device or the like
Result<void> check_pem_file(const std::filesystem::path& file);

// A pem_password_cb that returns no passphrase and sets the bool at `wanted`. By default OpenSSL
// would prompt on the terminal, and a server that rereads its key would block.
int give_no_passphrase(char* buffer, int size, int writes, void* wanted);

Error encrypted_key(const std::filesystem::path& file);

// "sha256:" and the SHA-256 of the SubjectPublicKeyInfo in lower-case hexadecimal. Stays valid when
// a certificate is renewed with the same key.
std::string pin_of(const x509_st* certificate);

// Normalises a pin typed by a user to the form of pin_of().
// Errors    usage
Result<std::string> parse_pin(const std::string& text);

// Errors    untrusted  expired or not yet valid, by the system's clock
Result<void> check_dates(const x509_st* certificate);

}  // namespace edgedraft
