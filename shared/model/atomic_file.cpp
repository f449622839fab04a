#include "shared/model/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

constexpr std::size_t kBufferBytes = 1u << 20;  // rows come in one at a time

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, std::filesystem::path temporary, std::FILE* file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return Error{Errc::io, "cannot write " + path.string() + ": it is no regular file"};
  }
  std::filesystem::path temporary = path;
  temporary += ".partial-" + std::to_string(getpid());
  // Somebody may have put a link of that name there, to have another file overwritten, and an
  // earlier process of our number may have left its file.
  unlink(temporary.c_str());
  const int descriptor =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
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
  if (bytes.empty()) return {};  // fwrite takes no null pointer, not even for nothing
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
  if (std::fclose(std::exchange(file_, nullptr)) != 0) return failure(errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failure(errno);
  temporary_.clear();
  // The new name is durable once its folder is.
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    fsync(descriptor);
    close(descriptor);
  }
  return {};
}

}  // namespace edgedraft
