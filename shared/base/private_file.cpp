#include "shared/base/private_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace edgedraft {
namespace {

Result<void> judge(int failed, const struct stat& status, const std::filesystem::path& file) {
  if (failed != 0) {
    return Error{Errc::io, file.string() + ": " + std::generic_category().message(errno)};
  }
  // Pipes and devices are passed on purpose.
  if (!S_ISREG(status.st_mode) || (status.st_mode & S_IRWXO) == 0) return {};
  return Error{Errc::usage,
               file.string() +
                   ": all users of this machine have access to it; restrict it with `chmod o= " +
                   file.string() + "`"};
}

}  // namespace

Result<void> check_private(const std::filesystem::path& file) {
  struct stat status {};
  const int failed = ::stat(file.c_str(), &status);
  return judge(failed, status, file);
}

Result<void> check_private(int descriptor, const std::filesystem::path& file) {
  struct stat status {};
  const int failed = ::fstat(descriptor, &status);
  return judge(failed, status, file);
}

}  // namespace edgedraft
