#include "shared/base/error.h"

#include <cstdio>
#include <cstdlib>

#include "shared/base/check.h"

namespace edgedraft {

std::string_view to_string(Errc code) {
  switch (code) {
    case Errc::usage:
      return "usage";
    case Errc::io:
      return "io";
    case Errc::bad_file:
      return "bad_file";
    case Errc::unsupported:
      return "unsupported";
    case Errc::mismatch:
      return "mismatch";
    case Errc::context_full:
      return "context_full";
    case Errc::frame_truncated:
      return "frame_truncated";
    case Errc::frame_too_large:
      return "frame_too_large";
    case Errc::bad_message:
      return "bad_message";
    case Errc::protocol:
      return "protocol";
    case Errc::version:
      return "version";
    case Errc::unauthorized:
      return "unauthorized";
    case Errc::untrusted:
      return "untrusted";
    case Errc::refused:
      return "refused";
    case Errc::session_unknown:
      return "session_unknown";
    case Errc::link_down:
      return "link_down";
    case Errc::unknown_host:
      return "unknown_host";
    case Errc::timed_out:
      return "timed_out";
    case Errc::cancelled:
      return "cancelled";
  }
  return "unknown";
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
