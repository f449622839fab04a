#include "tests/e2e/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

extern char** environ;

namespace edgedraft::testing {
namespace {

using namespace std::chrono_literals;

std::filesystem::path with_suffix(const std::filesystem::path& prefix, const char* suffix) {
  return prefix.string() + suffix;
}

// True if only edgedraft-lab has one of these options.
bool is_experiment(const std::vector<std::string>& options) {
  constexpr const char* kPrefixes[] = {"--pace-", "--cycles", "--offline-after", "--oracle"};
  return std::ranges::any_of(options, [&](const std::string& option) {
    return std::ranges::any_of(kPrefixes,
                               [&](const char* prefix) { return option.starts_with(prefix); });
  });
}

}  // namespace

Process::Process(std::vector<std::string> command, const std::filesystem::path& output_prefix,
                 const std::string& input, const std::map<std::string, std::string>& environment)
    : prefix_(output_prefix) {
  std::ofstream(with_suffix(prefix_, ".in"), std::ios::binary) << input;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  const auto open_as = [&](int descriptor, const char* suffix, int flags) {
    posix_spawn_file_actions_addopen(&files, descriptor, with_suffix(prefix_, suffix).c_str(),
                                     flags, 0600);
  };
  open_as(0, ".in", O_RDONLY);
  open_as(1, ".out", O_WRONLY | O_CREAT | O_TRUNC);
  open_as(2, ".err", O_WRONLY | O_CREAT | O_TRUNC);

  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<std::string> variables;
  for (char** v = environ; *v; ++v) {
    const std::string variable = *v;
    const bool is_given = environment.contains(variable.substr(0, variable.find('=')));
    if (!is_given && !variable.starts_with("EDGEDRAFT_")) variables.push_back(variable);
  }
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> variable_pointers;
  for (std::string& v : variables) variable_pointers.push_back(v.data());
  variable_pointers.push_back(nullptr);

  const int error = posix_spawnp(&pid_, arguments[0], &files, nullptr, arguments.data(),
                                 variable_pointers.data());
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw std::runtime_error("cannot start " + command[0]);
}

Process::~Process() {
  if (running()) {
    signal(SIGKILL);
    wait();
  }
}

bool Process::running() {
  if (status_ >= 0) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == 0) return true;
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return false;
}

int Process::wait(std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (running()) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "still running after " << limit.count() << " s; stderr: " << err();
      signal(SIGKILL);
    }
    std::this_thread::sleep_for(5ms);
  }
  return status_;
}

void Process::signal(int number) {
  ::kill(pid_, number);
}

std::string Process::out() const {
  return test::file_text(with_suffix(prefix_, ".out"));
}
std::string Process::err() const {
  return test::file_text(with_suffix(prefix_, ".err"));
}

bool Process::wait_for_output(const std::string& text, std::chrono::seconds limit) {
  return wait_for(text, ".out", limit);
}
bool Process::wait_for_error(const std::string& text, std::chrono::seconds limit) {
  return wait_for(text, ".err", limit);
}

bool Process::wait_for(const std::string& text, const char* suffix, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const auto is_there = [&] {
    return test::file_text(with_suffix(prefix_, suffix)).find(text) != std::string::npos;
  };
  while (!is_there()) {
    if (!running() || std::chrono::steady_clock::now() > deadline) return is_there();
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

std::string demo_model(const std::string& name) {
  return std::string(EDGEDRAFT_MODELS) + "/" + name + ".gguf";
}

std::vector<std::string> joined(std::vector<std::string> options,
                                const std::vector<std::string>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

Server::Server(const test::TemporaryDirectory& scratch, std::vector<std::string> options,
               const std::string& listen) {
  static std::atomic<int> count = 0;
  std::vector<std::string> command{EDGEDRAFT_SERVER};
  if (is_experiment(options)) command = {EDGEDRAFT_LAB, "server"};
  command.insert(command.end(),
                 {"--model", demo_model("target"), "--bundle", demo_model("moa-tli0"), "--bundle",
                  demo_model("moa-tli1"), "--bundle", demo_model("eagle"), "--bundle",
                  demo_model("eagle-hass"), "--bundle", demo_model("independent"), "--listen",
                  listen, "--state", scratch / "server-state"});
  command.insert(command.end(), options.begin(), options.end());
  process_ = std::make_unique<Process>(command, scratch / ("server" + std::to_string(count++)));
  if (!process_->wait_for_output("\n")) {
    throw std::runtime_error("the server did not start: " + process_->err());
  }
  std::istringstream line(process_->out());
  std::string ready;
  std::string pin_word;
  line >> ready >> address_ >> pin_word >> pin_;
  EXPECT_EQ(ready, "ready");
  EXPECT_EQ(pin_word, "pin");
}

std::unique_ptr<Process> start_client(const test::TemporaryDirectory& scratch,
                                      const std::string& name, std::vector<std::string> options) {
  std::vector<std::string> command{is_experiment(options) ? EDGEDRAFT_LAB : EDGEDRAFT_CLIENT, "run",
                                   "--json"};
  command.insert(command.end(), options.begin(), options.end());
  return std::make_unique<Process>(
      command, scratch / name, "",
      std::map<std::string, std::string>{{"XDG_CONFIG_HOME", scratch.path().string()}});
}

}  // namespace edgedraft::testing
