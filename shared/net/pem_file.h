#pragma once

#include <filesystem>

#include "shared/base/error.h"

// Keys and certificates in PEM form, in files that OpenSSL reads.
namespace edgedraft {

// Checks that the file can be read repeatedly: OpenSSL reports no reason. Both programs reread
// their files at start and when they renew them, so a pipe is not accepted.
// Errors    io naming the file; usage for a pipe, a device or the like
Result<void> check_pem_file(const std::filesystem::path& file);

// A pem_password_cb that returns no passphrase and sets the bool at `wanted`. By default OpenSSL
// would prompt on the terminal, and a server that rereads its key would block.
int give_no_passphrase(char* buffer, int size, int writes, void* wanted);

Error encrypted_key(const std::filesystem::path& file);

}  // namespace edgedraft
