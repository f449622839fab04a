#include "shared/base/text_file.h"

#include <sys/stat.h>
#include <cerrno>
#include <fstream>
#include <iostream>
#include <istream>
#include <system_error>

namespace edgedraft {
namespace {

Result<void> judge(int failed, const struct stat& status, const std::filesystem::path& file) {
  if (failed != 0) {
    return Error{Errc::io, file.string() + ": " + std::generic_category().message(errno)};
  }
  // Pipes and devices are exempt, because the user names them deliberately.
  if (!S_ISREG(status.st_mode) || (status.st_mode & S_IRWXO) == 0) return {};
  return Error{Errc::usage,
               file.string() +
                   ": all users of this machine have access to it; restrict it with `chmod o= " +
                   file.string() + "`"};
}

Result<std::string> read_to_the_end(std::istream& in, const std::string& name,
                                    std::uint64_t bytes_max) {
  std::string text;
  char block[1 << 16];
  while (in.read(block, sizeof block) || in.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    if (text.size() > bytes_max) {
      return Error{Errc::usage, name + ": longer than " + std::to_string(bytes_max) + " bytes"};
    }
  }
  if (in.bad()) return Error{Errc::io, name + ": cannot be read"};
  return text;
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

Result<std::string> read_text_file(const std::filesystem::path& file, std::uint64_t bytes_max) {
  const std::string name = file.string();
  std::error_code unknown;  // opening the file reports the error
  if (std::filesystem::is_directory(file, unknown)) {
    return Error{Errc::io, name + ": is a folder"};
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) return Error{Errc::io, name + ": " + std::generic_category().message(errno)};
  return read_to_the_end(in, name, bytes_max);
}

Result<std::string> read_text(const std::filesystem::path& file, std::uint64_t bytes_max) {
  if (file == "-") return read_to_the_end(std::cin, "standard input", bytes_max);
  return read_text_file(file, bytes_max);
}

}  // namespace edgedraft
