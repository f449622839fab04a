#pragma once

#include <string>

#include "shared/base/error.h"

struct x509_st;  // OpenSSL's X509

namespace edgedraft {

// "sha256:" and the SHA-256 of the SubjectPublicKeyInfo in lower-case hexadecimal. It outlives a
// renewed certificate of the same key.
std::string pin_of(const x509_st* certificate);

// The pin as pin_of() writes it, from what a user typed.
// Errors    usage
Result<std::string> parse_pin(const std::string& text);

// Errors    untrusted  expired, or not valid yet, by the system's clock
Result<void> check_dates(const x509_st* certificate);

}  // namespace edgedraft
