#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>

#include "shared/base/error.h"

namespace edgedraft {

// Numbers written once, then read in any order, in an unnamed file. The system caches as much as
// fits into memory. The file vanishes with its owner, even after a crash.
class ScratchFile {
 public:
  // Creates it in the folder of the file `beside`.
  // Errors    io
  static Result<ScratchFile> create(const std::filesystem::path& beside);
  ~ScratchFile();
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&& other) noexcept;

  // Requires  numbers() was not called
  // Errors    io, such as a full disk
  Result<void> append(std::span<const std::uint32_t> numbers);
  std::uint64_t count() const { return count_; }
  // All appended numbers. Valid as long as this object.
  // Errors    io
  Result<std::span<const std::uint32_t>> numbers();

 private:
  ScratchFile(std::filesystem::path beside, std::FILE* file);
  Error failure(int code) const;

  std::filesystem::path beside_;
  std::FILE* file_ = nullptr;
  std::uint64_t count_ = 0;
  const std::uint32_t* mapped_ = nullptr;
};

}  // namespace edgedraft
