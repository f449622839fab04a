#include "shared/model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace edgedraft {
namespace {

Error io_error(const std::filesystem::path& path, int code) {
  return {Errc::io, "cannot open " + path.string() + ": " + std::strerror(code)};
}

// Closes on every return: the mapping does not need the descriptor.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Non-blocking has no effect on regular files; opening a FIFO would block otherwise.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) return io_error(path, errno);
  struct stat status {};
  if (fstat(file.number, &status) != 0) return io_error(path, errno);
  if (S_ISDIR(status.st_mode)) return Error{Errc::io, path.string() + " is a folder, not a file"};
  if (!S_ISREG(status.st_mode)) return Error{Errc::io, path.string() + " is not a regular file"};
  const auto count = static_cast<std::size_t>(status.st_size);
  if (count == 0) return MappedFile();  // an empty file cannot be mapped, and all readers reject it
  void* start = mmap(nullptr, count, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (start == MAP_FAILED) return io_error(path, errno);
  return MappedFile(ByteView(static_cast<const std::byte*>(start), count));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace edgedraft
