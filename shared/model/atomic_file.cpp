#include "shared/model/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

constexpr std::size_t kBufferBytes = 1u << 20;  // rows arrive one at a time

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  std::filesystem::path name = path;
  name += ".partial-" + std::to_string(getpid());
  return name;
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

int open_nameless(const std::filesystem::path& folder) {
  return open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
}

// Removes a link placed there to overwrite another file, or a file left by an earlier process with
// our id.
void clear_name(const std::filesystem::path& temporary) {
  unlink(temporary.c_str());
}

bool give_name(int descriptor, const std::filesystem::path& name) {
  clear_name(name);
  const std::string open_file = "/proc/self/fd/" + std::to_string(descriptor);
  return linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

// Checks early that an unnamed file can be named. Some systems and file systems forbid it, and the
// check avoids a failure after hours of writing.
bool can_be_named_later(const std::filesystem::path& path) {
  const int probe = open_nameless(folder_of(path));
  if (probe < 0) return false;
  const std::filesystem::path temporary = temporary_name(path);
  const bool can = give_name(probe, temporary);
  if (can) unlink(temporary.c_str());
  close(probe);
  return can;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, std::filesystem::path temporary, std::FILE* file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return Error{Errc::io, "cannot write " + path.string() + ": not a regular file"};
  }
  std::filesystem::path temporary;
  int descriptor = can_be_named_later(path) ? open_nameless(folder_of(path)) : -1;
  if (descriptor < 0) {
    temporary = temporary_name(path);
    clear_name(temporary);
    descriptor =
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  }
  if (descriptor < 0) {
    return Error{Errc::io, "cannot write " + path.string() + ": " + std::strerror(errno)};
  }
  std::FILE* file = fdopen(descriptor, "wb");
  EDGEDRAFT_CHECK(file != nullptr);
  std::setvbuf(file, nullptr, _IOFBF, kBufferBytes);
  return AtomicFile(path, std::move(temporary), file);
}

AtomicFile::~AtomicFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::exchange(other.file_, nullptr)) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(file_, other.file_);
  return *this;
}

Error AtomicFile::failure(int code) const {
  std::string message = "cannot write " + path_.string() + ": " + std::strerror(code);
  if (code == ENOSPC || code == EDQUOT) message += "; free some space or write to another disk";
  return {Errc::io, std::move(message)};
}

Result<void> AtomicFile::append(ByteView bytes) {
  if (bytes.empty()) return {};  // fwrite rejects null pointers even for zero bytes
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) return failure(errno);
  return {};
}

Result<void> AtomicFile::patch(std::uint64_t offset, ByteView bytes) {
  if (std::fseek(file_, static_cast<long>(offset), SEEK_SET) != 0) return failure(errno);
  if (auto written = append(bytes); !written) return written.error();
  if (std::fseek(file_, 0, SEEK_END) != 0) return failure(errno);
  return {};
}

Result<void> AtomicFile::commit() {
  if (std::fflush(file_) != 0 || fsync(fileno(file_)) != 0) return failure(errno);
  if (temporary_.empty()) {
    // An existing name can only be replaced by renaming.
    if (!give_name(fileno(file_), temporary_name(path_))) return failure(errno);
    temporary_ = temporary_name(path_);
  }
  if (std::fclose(std::exchange(file_, nullptr)) != 0) return failure(errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failure(errno);
  temporary_.clear();
  // The new name is durable once its folder is synced.
  const int descriptor = open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    fsync(descriptor);
    close(descriptor);
  }
  return {};
}

}  // namespace edgedraft
