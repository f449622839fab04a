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
  std::vector<std::string> argv;   // argv[0] is looked up in PATH
  std::filesystem::path output{};  // its standard output; truncated
  std::filesystem::path errors{};
  std::map<std::string, std::string> environment{};  // added to ours, without our EDGEDRAFT_*
                                                     // variables
  // Shares our terminal, streams, process group and whole environment; ignores `output` and
  // `errors`.
  bool attached = false;
  int network = -1;   // open network namespace that it runs in; -1: ours
  Duration grace{0};  // from SIGTERM to SIGKILL when the object ends
};

// A child program. It ends with this object, and the system kills it if we die.
class Process {
 public:
  // Errors    io naming the program
  static Result<Process> start(const ProcessOptions& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  bool running();
  // Waits for its end until `deadline`, or until `cancelled` returns true. False if it still runs.
  bool wait_until(
      Instant deadline, const std::function<bool()>& cancelled = [] { return false; });
  // After its end: exit status, or 128 + n after signal n.
  int status() const { return status_; }
  void signal(int number);
  // SIGTERM, then SIGKILL after `grace`.
  void end(Duration grace);

 private:
  Process() = default;

  pid_t pid_ = -1;
  Duration grace_{0};
  int status_ = -1;
};

// Output written so far; empty if the file does not exist.
std::string read_output(const std::filesystem::path& file);

// Last non-empty line of a program's messages, to append to ours.
std::string last_line(const std::filesystem::path& file);

// A folder for temporary files, removed with them. Throws Failure (io) if it cannot be created.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace edgedraft::netsim
