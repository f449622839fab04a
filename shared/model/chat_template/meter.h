#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "shared/base/error.h"

namespace edgedraft::chat {

// A string costs a step for each so many bytes, so that time and memory stay bounded.
inline constexpr std::size_t kBytesPerStep = 64;

// Counts the work of one run, and keeps its first error.
class Meter {
 public:
  // Whether the run may go on.
  bool spend(std::size_t steps);
  bool spend_bytes(std::size_t bytes) { return spend(bytes / kBytesPerStep); }
  // The template does what its values do not allow.
  void fail(int line, const std::string& what);
  // The template does what this engine does not know.
  void unsupported(int line, const std::string& what);
  void stop(Error error);

  const std::optional<Error>& error() const { return error_; }

 private:
  std::size_t steps_ = 0;
  std::optional<Error> error_;
};

Error output_too_long();

}  // namespace edgedraft::chat
