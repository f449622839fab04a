#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>

#include "shared/base/error.h"

namespace edgedraft {

// Numbers that are written once and then read in any order, in a file without a name: memory holds
// what the system keeps of it, and the file is gone with its owner, however that ends.
class ScratchFile {
 public:
  // In the folder of the file that `beside` names.
  // Errors    io
  static Result<ScratchFile> create(const std::filesystem::path& beside);
  ~ScratchFile();
  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&& other) noexcept;

  // Requires  numbers() was not called
  // Errors    io, such as a full disk
  Result<void> append(std::span<const std::uint32_t> numbers);
  std::uint64_t count() const { return count_; }
  // All that was appended. Valid as long as this object.
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
