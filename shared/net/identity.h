#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "shared/base/error.h"

namespace edgedraft {

// A server's certificate and private key, as PEM files.
struct TlsIdentity {
  std::filesystem::path certificate_file;
  std::filesystem::path key_file;
  std::string pin;          // "sha256:HEX" over the SubjectPublicKeyInfo, for --pin
  std::int64_t expires_at;  // seconds since 1970
};

// The identity kept in a directory, which is made, readable by its owner alone, on the first start:
// an EC P-256 key and a self-signed certificate. Where only the key is left its certificate is made
// anew, and the pin stays.
//
// Errors    io        the directory or a file cannot be read or written
//           bad_file  a file there is no PEM, or the key is not the certificate's
Result<TlsIdentity> load_or_create_identity(const std::filesystem::path& state_directory);

// The identity that is kept there; none is made.
// Errors    io, bad_file
Result<TlsIdentity> load_identity(const std::filesystem::path& state_directory);

// The identity in two files of the user.
// Errors    io, bad_file; usage of check_pem_file()
Result<TlsIdentity> load_identity(const std::filesystem::path& certificate_file,
                                  const std::filesystem::path& key_file);

}  // namespace edgedraft
