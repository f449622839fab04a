#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft::netsim {

// A program at an end of a link.
class Child {
 public:
  // Adds these variables to our environment. `quiet`: redirects its standard output to standard
  // error.
  static Result<Child> start(const std::vector<std::string>& argv,
                             const std::map<std::string, std::string>& variables, bool quiet);
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}
  Child& operator=(Child&&) = delete;
  // Asks it to end, then kills it.
  ~Child();

  // Exit status, or 128 + n for signal n; nullopt while it runs.
  std::optional<int> status();

 private:
  explicit Child(pid_t pid) : pid_(pid) {}

  pid_t pid_;
  std::optional<int> status_;
};

}  // namespace edgedraft::netsim
