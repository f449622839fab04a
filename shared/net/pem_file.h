#pragma once

#include <filesystem>

#include "shared/base/error.h"

// Keys and certificates in PEM form, in files that OpenSSL reads.
namespace edgedraft {

// Whether the file can be read at all: OpenSSL does not say why not.
// Errors    io naming the file
Result<void> check_pem_file(const std::filesystem::path& file);

// OpenSSL would ask the terminal for a passphrase, and a server that reads its key anew would wait
// for it: gives none, and notes in the bool at `wanted` that there has to be one. A
// pem_password_cb.
int give_no_passphrase(char* buffer, int size, int writes, void* wanted);

Error encrypted_key(const std::filesystem::path& file);

}  // namespace edgedraft
