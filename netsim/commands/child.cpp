#include "netsim/commands/child.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <thread>

extern char** environ;

namespace edgedraft::netsim {
namespace {

using namespace std::chrono_literals;

constexpr auto kFarewell = 3s;

}  // namespace

Result<Child> Child::start(const std::vector<std::string>& argv,
                           const std::map<std::string, std::string>& variables, bool quiet) {
  std::vector<std::string> environment;
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable;
    if (!variables.contains(text.substr(0, text.find('=')))) environment.push_back(text);
  }
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  const auto pointers = [](const std::vector<std::string>& words) {
    std::vector<char*> out;
    for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
    out.push_back(nullptr);
    return out;
  };
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (quiet) posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv.front().c_str(), &actions, nullptr,
                                 pointers(argv).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Error{Errc::io, argv.front() + ": " + std::strerror(error)};
  return Child(pid);
}

Child::~Child() {
  if (pid_ < 0 || status()) return;
  kill(pid_, SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + kFarewell;
  while (!status() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(10ms);
  }
  if (status()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::optional<int> Child::status() {
  int raw = 0;
  if (!status_ && waitpid(pid_, &raw, WNOHANG) == pid_) {
    status_ = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
  }
  return status_;
}

}  // namespace edgedraft::netsim
