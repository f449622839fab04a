#pragma once

#include <filesystem>

#include "shared/base/error.h"

// Keys and certificates in PEM form, in files that OpenSSL reads.
namespace edgedraft {

// Whether the file can be read at all, and again: OpenSSL does not say why not. Both programs read
// their files several times, when they start and whenever they renew what is in them, so a pipe
// will not do.
// Errors    io naming the file; usage where it is a pipe, a device or the like
Result<void> check_pem_file(const std::filesystem::path& file);

// OpenSSL would ask the terminal for a passphrase, and a server that reads its key anew would wait
// for it: gives none, and notes in the bool at `wanted` that there has to be one. A
// pem_password_cb.
int give_no_passphrase(char* buffer, int size, int writes, void* wanted);

Error encrypted_key(const std::filesystem::path& file);

}  // namespace edgedraft
