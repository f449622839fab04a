#pragma once

#include <cstdint>
#include <string>

#include "shared/base/clock.h"

namespace edgedraft {

// Progress line of a long job on standard error, with the time left. Silent if standard error is
// not a terminal.
class Progress {
 public:
  Progress(std::string label, std::uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::uint64_t amount);

 private:
  void draw(Instant now);

  std::string label_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  bool visible_;
  Instant start_;
  Instant next_draw_;
};

}  // namespace edgedraft
