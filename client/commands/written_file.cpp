#include "client/commands/written_file.h"

#include <algorithm>
#include <string>
#include <system_error>

namespace edgedraft::client {

Result<void> check_written(const std::filesystem::path& output,
                           std::span<const std::filesystem::path> read, bool replaces) {
  if (output.empty()) return Error{Errc::usage, "the output is missing: give -o FILE"};
  if (!std::filesystem::exists(output)) return boost::system::in_place_value;
  const bool is_read = std::ranges::any_of(read, [&output](const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::equivalent(path, output, ignored);
  });
  if (is_read) return Error{Errc::usage, "-o " + output.string() + ": it is also an input file"};
  if (replaces) return boost::system::in_place_value;
  return Error{Errc::usage, "-o " + output.string() + ": it exists; --force replaces it"};
}

}  // namespace edgedraft::client
