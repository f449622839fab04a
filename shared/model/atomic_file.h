#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "shared/base/bytes.h"
#include "shared/base/error.h"

namespace edgedraft {

// A file that appears under its name only when complete and on disk. Until then it is unnamed, so
// no file remains however the process ends. On systems without unnamed files it is a temporary file
// in the same folder, removed by the destructor.
//
// Errors    io, from every call: the system's message, and the remedy for a full disk
class AtomicFile {
 public:
  // Refuses a path that exists and is not a regular file.
  static Result<AtomicFile> create(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;

  Result<void> append(ByteView bytes);
  // Overwrites bytes appended earlier.
  Result<void> patch(std::uint64_t offset, ByteView bytes);
  // Flushes, and replaces any file of that name. Call once, last.
  Result<void> commit();

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary, std::FILE* file);
  Error failure(int code) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty if unnamed
  std::FILE* file_ = nullptr;
};

}  // namespace edgedraft
