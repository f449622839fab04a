#pragma once

#include <string>

#include "shared/base/error.h"

struct x509_st;  // OpenSSL's X509

namespace edgedraft {

// "sha256:" and the SHA-256 of the SubjectPublicKeyInfo in lower-case hexadecimal. Stays valid when
// a certificate is renewed with the same key.
std::string pin_of(const x509_st* certificate);

// Normalises a pin typed by a user to the form of pin_of().
// Errors    usage
Result<std::string> parse_pin(const std::string& text);

// Errors    untrusted  expired or not yet valid, by the system's clock
Result<void> check_dates(const x509_st* certificate);

}  // namespace edgedraft
