#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "shared/base/error.h"

namespace edgedraft {

// The token of a token file, for both programs: the file's only line, without the blanks around it
// and without its line ending ("\n" or "\r\n"). A token is 1 to `bytes_max` printable ASCII
// characters. "-" reads standard input; a pipe will do as well as a file.
//
// Refused, because signing in would be weaker than its owner believes or fail for no visible
// reason: a file with no token on its first line, with a second line, with other characters, and
// one that others than its owner and group may read or write.
// Errors    io naming the file: it cannot be read, or is a folder; usage naming the file and what
//           to do: it is refused
Result<std::string> read_token_file(const std::filesystem::path& file, std::size_t bytes_max);

// The token that is in the file by now. Nothing where it cannot be read again, as standard input, a
// pipe or a device: what was read of it is gone, and to wait for more could take for ever.
// Errors    as of read_token_file()
Result<std::optional<std::string>> reread_token_file(const std::filesystem::path& file,
                                                     std::size_t bytes_max);

}  // namespace edgedraft
