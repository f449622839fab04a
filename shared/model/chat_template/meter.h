#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "shared/base/error.h"

namespace edgedraft::chat {

// Bytes of a string per step, which bounds time and memory.
inline constexpr std::size_t kBytesPerStep = 64;

// Counts the work of one run and keeps its first error.
class Meter {
 public:
  // Returns whether the run may continue.
  bool spend(std::size_t steps);
  bool spend_bytes(std::size_t bytes) { return spend(bytes / kBytesPerStep); }
  // Reports an operation that is invalid for its values.
  void fail(int line, const std::string& what);
  // Reports a construct that this engine does not support.
  void unsupported(int line, const std::string& what);
  void stop(Error error);

  const std::optional<Error>& error() const { return error_; }

 private:
  std::size_t steps_ = 0;
  std::optional<Error> error_;
};

Error output_too_long();

}  // namespace edgedraft::chat
