#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "shared/base/error.h"

namespace edgedraft {

// Reads the token of a token file: its only line, without surrounding blanks and line ending ("\n"
// or "\r\n"). A token has 1 to `bytes_max` printable ASCII characters. "-" reads standard input;
// pipes are accepted.
//
// Refuses files that would weaken sign-in or make it fail without a visible reason. These lack a
// token on the first line, have a second line or other characters, or grant access beyond owner and
// group.
// Errors    io naming the file: unreadable, or a folder; usage naming the file and the remedy:
//           refused
Result<std::string> read_token_file(const std::filesystem::path& file, std::size_t bytes_max);

// Reads the token again. Nullopt for standard input, a pipe or a device: their content is gone, and
// reading could block forever.
// Errors    those of read_token_file()
Result<std::optional<std::string>> reread_token_file(const std::filesystem::path& file,
                                                     std::size_t bytes_max);

}  // namespace edgedraft
