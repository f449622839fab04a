#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/error.h"

namespace edgedraft {

// Reads a file with secrets whole. "-" reads standard input; pipes are accepted.
// Errors    io naming the file: unreadable, or a folder; usage naming it and the remedy: longer
// than
//           `bytes_max`, or accessible beyond owner and group
Result<std::string> read_secret_file(const std::filesystem::path& file, std::size_t bytes_max);

// True for standard input, a pipe or a device: their content is gone once it is read, and reading
// again could block forever.
bool is_read_once(const std::filesystem::path& file);

// Fault of a token with its remedy; empty if it has 1 to `bytes_max` printable ASCII characters.
std::string token_complaint(std::string_view token, std::size_t bytes_max);

// Reads the token of a token file: its only line, without surrounding blanks and line ending ("\n"
// or "\r\n"), as read_secret_file().
//
// Refuses files that would weaken sign-in or make it fail without a visible reason. These lack a
// token on the first line, have a second line or other characters, or grant access beyond owner and
// group.
// Errors    io naming the file: unreadable, or a folder; usage naming the file and the remedy:
//           refused
Result<std::string> read_token_file(const std::filesystem::path& file, std::size_t bytes_max);

// Reads the token again. Nullopt if the file is_read_once().
// Errors    those of read_token_file()
Result<std::optional<std::string>> reread_token_file(const std::filesystem::path& file,
                                                     std::size_t bytes_max);

}  // namespace edgedraft
