#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/error.h"

namespace edgedraft::netsim {

struct ProcessOptions {
  std::vector<std::string> argv;  // argv[0] is looked for in PATH
  std::filesystem::path output;   // its standard output; truncated
  std::filesystem::path errors;
  std::map<std::string, std::string> environment{};  // over ours, less every EDGEDRAFT_* of ours
};

// A program that we started. It ends with this object, and is killed by the system when we are.
class Process {
 public:
  // Errors    io naming the program
  static Result<Process> start(const ProcessOptions& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  bool running();
  // Waits for its end until `deadline`, or until `cancelled` says so. False where it still runs.
  bool wait_until(
      Instant deadline, const std::function<bool()>& cancelled = [] { return false; });
  // Once it has ended: its status, or 128 + n after signal n.
  int status() const { return status_; }
  void signal(int number);
  // SIGTERM, and SIGKILL for one that does not heed it in time.
  void end(Duration grace);

 private:
  Process() = default;

  pid_t pid_ = -1;
  int status_ = -1;
};

// What a program has written there so far; nothing where there is no such file.
std::string read_output(const std::filesystem::path& file);

// The end of a program's messages, for ours: its last line that is not empty.
std::string last_line(const std::filesystem::path& file);

// Standard output of a short command, without the last newline; empty where it cannot be run or
// fails.
std::string output_of(const std::vector<std::string>& argv);

}  // namespace edgedraft::netsim
