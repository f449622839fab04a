#include "shared/drafting/index/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {

ScratchFile::ScratchFile(std::filesystem::path beside, std::FILE* file)
    : beside_(std::move(beside)), file_(file) {}

Result<ScratchFile> ScratchFile::create(const std::filesystem::path& beside) {
  std::string name = beside.string() + ".scratch-XXXXXX";
  const int descriptor = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) {
    return Error{Errc::io, "cannot create a temporary file beside " + beside.string() + ": " +
                               std::strerror(errno)};
  }
  unlink(name.c_str());
  std::FILE* file = fdopen(descriptor, "w+b");
  EDGEDRAFT_CHECK(file != nullptr);
  return ScratchFile(beside, file);
}

ScratchFile::~ScratchFile() {
  if (mapped_ != nullptr) munmap(const_cast<std::uint32_t*>(mapped_), 4 * count_);
  if (file_ != nullptr) std::fclose(file_);
}

ScratchFile::ScratchFile(ScratchFile&& other) noexcept
    : beside_(std::move(other.beside_)),
      file_(std::exchange(other.file_, nullptr)),
      count_(std::exchange(other.count_, 0)),
      mapped_(std::exchange(other.mapped_, nullptr)) {}

ScratchFile& ScratchFile::operator=(ScratchFile&& other) noexcept {
  std::swap(beside_, other.beside_);
  std::swap(file_, other.file_);
  std::swap(count_, other.count_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Error ScratchFile::failure(int code) const {
  std::string message =
      "cannot write a temporary file beside " + beside_.string() + ": " + std::strerror(code);
  if (code == ENOSPC || code == EDQUOT) message += "; free some space or write to another disk";
  return {Errc::io, std::move(message)};
}

Result<void> ScratchFile::append(std::span<const std::uint32_t> numbers) {
  EDGEDRAFT_CHECK(mapped_ == nullptr);
  if (numbers.empty()) return {};  // fwrite rejects null pointers even for zero bytes
  if (std::fwrite(numbers.data(), 4, numbers.size(), file_) != numbers.size()) {
    return failure(errno);
  }
  count_ += numbers.size();
  return {};
}

Result<std::span<const std::uint32_t>> ScratchFile::numbers() {
  if (count_ == 0) return std::span<const std::uint32_t>();
  if (mapped_ == nullptr) {
    if (std::fflush(file_) != 0) return failure(errno);
    void* start = mmap(nullptr, 4 * count_, PROT_READ, MAP_SHARED, fileno(file_), 0);
    if (start == MAP_FAILED) return failure(errno);
    mapped_ = static_cast<const std::uint32_t*>(start);
  }
  return std::span(mapped_, count_);
}

}  // namespace edgedraft
