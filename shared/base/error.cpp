#include "shared/base/error.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "shared/base/check.h"

namespace edgedraft {

std::string_view to_string(Errc code) {
  // In the order of Errc.
  constexpr std::string_view kNames[] = {
      "usage",        "io",           "bad_file",        "unsupported",
      "mismatch",     "context_full", "frame_truncated", "frame_too_large",
      "bad_message",  "protocol",     "version",         "unauthorized",
      "untrusted",    "refused",      "session_unknown", "link_down",
      "unknown_host", "timed_out",    "cancelled"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Errc::cancelled) + 1);
  return kNames[static_cast<std::size_t>(code)];
}

void check_failed(std::string_view condition, const boost::source_location& where) {
  std::fprintf(stderr, "%s:%u: %s: broken invariant: %.*s\n", where.file_name(), where.line(),
               where.function_name(), static_cast<int>(condition.size()), condition.data());
  std::abort();
}

Error in_file(const std::filesystem::path& path, Error error) {
  if (error.message.find(path.string()) == std::string::npos) {
    error.message = path.string() + ": " + error.message;
  }
  return error;
}

}  // namespace edgedraft
