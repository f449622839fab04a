#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "shared/base/bytes.h"
#include "shared/base/error.h"

namespace edgedraft {

// A file that appears under its name only once it is whole and on the disk. Until then it has none,
// so that nothing stays behind however the process ends. Where the system has no such files it is
// a temporary file in the same folder, removed when the owner goes.
//
// Errors    io, from every call: what the operating system said, and what to do about a full disk
class AtomicFile {
 public:
  // Refuses a path that names something else than a regular file.
  static Result<AtomicFile> create(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;

  Result<void> append(ByteView bytes);
  // Overwrites bytes that were appended before.
  Result<void> patch(std::uint64_t offset, ByteView bytes);
  // Flushes, and renames over whatever bears the name. Call once, last.
  Result<void> commit();

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary, std::FILE* file);
  Error failure(int code) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty where it has no name
  std::FILE* file_ = nullptr;
};

}  // namespace edgedraft
