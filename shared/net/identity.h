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

// Loads the identity of a directory. The first start creates the directory, readable by its owner
// only, with an EC P-256 key and a self-signed certificate. If only the key exists, a new
// certificate is made and the pin stays.
//
// Errors    io        the directory or a file cannot be read or written
//           bad_file  a file is not PEM, or the key does not match the certificate
Result<TlsIdentity> load_or_create_identity(const std::filesystem::path& state_directory);

// Loads an existing identity; creates none.
// Errors    io, bad_file
Result<TlsIdentity> load_identity(const std::filesystem::path& state_directory);

// Loads the identity from two files of the user.
// Errors    io, bad_file; usage of check_pem_file()
Result<TlsIdentity> load_identity(const std::filesystem::path& certificate_file,
                                  const std::filesystem::path& key_file);

}  // namespace edgedraft
