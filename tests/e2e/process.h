#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace edgedraft::testing {

// A child process with its output in files. Killed by the destructor.
class Process {
 public:
  Process(std::vector<std::string> command, const std::filesystem::path& output_prefix,
          const std::string& input = {},
          const std::map<std::string, std::string>& environment = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int id() const { return pid_; }
  // The exit status; 128 + n for signal n. Kills the process if it does not end in time.
  int wait(std::chrono::seconds limit = std::chrono::seconds(60));
  void signal(int number);
  bool running();

  std::string out() const;
  std::string err() const;
  // Waits until standard output holds `text`; false after a timeout.
  bool wait_for_output(const std::string& text,
                       std::chrono::seconds limit = std::chrono::seconds(30));
  bool wait_for_error(const std::string& text,
                      std::chrono::seconds limit = std::chrono::seconds(30));

 private:
  bool wait_for(const std::string& text, const char* suffix, std::chrono::seconds limit);

  std::filesystem::path prefix_;
  int pid_ = -1;
  int status_ = -1;
};

// edgedraft-server with the demo models on a free port of loopback; edgedraft-lab's if an option is
// --pace-...
class Server {
 public:
  explicit Server(const test::TemporaryDirectory& scratch, std::vector<std::string> options = {},
                  const std::string& listen = "127.0.0.1:0");

  const std::string& address() const { return address_; }
  const std::string& pin() const { return pin_; }
  Process& process() { return *process_; }

 private:
  std::unique_ptr<Process> process_;
  std::string address_;
  std::string pin_;
};

// `edgedraft run --json` with these further options; the lab's if one of them is an experiment's.
std::unique_ptr<Process> start_client(const test::TemporaryDirectory& scratch,
                                      const std::string& name, std::vector<std::string> options);

std::string demo_model(const std::string& name);

std::vector<std::string> joined(std::vector<std::string> options,
                                const std::vector<std::string>& more);

}  // namespace edgedraft::testing
