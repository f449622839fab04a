#pragma once

#include <filesystem>

#include "shared/base/bytes.h"
#include "shared/base/error.h"

namespace edgedraft {

// Owns a read-only mapping of a file.
//
// A file that another program shortens while it is mapped kills the reader with SIGBUS; replace
// model files by renaming, as GgufWriter does.
class MappedFile {
 public:
  // Errors    io: missing, not permitted, not a regular file, or not mappable
  static Result<MappedFile> open(const std::filesystem::path& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  ByteView bytes() const { return bytes_; }

 private:
  explicit MappedFile(ByteView bytes) : bytes_(bytes) {}

  ByteView bytes_;
};

}  // namespace edgedraft
