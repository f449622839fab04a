#include "netsim/drivers/command.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstring>

namespace edgedraft::netsim {
namespace {

constexpr int kNoSuchProgram = 127;

[[noreturn]] void become(const std::vector<std::string>& argv, int network, int out, int error) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (network >= 0 && setns(network, CLONE_NEWNET) != 0) _exit(1);
  dup2(out, STDOUT_FILENO);
  dup2(error, STDERR_FILENO);
  std::vector<char*> pointers;
  for (const std::string& word : argv) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  _exit(kNoSuchProgram);
}

}  // namespace

std::string shell_line(const std::vector<std::string>& argv) {
  std::string line;
  for (const std::string& word : argv) {
    if (!line.empty()) line += ' ';
    // A word that starts with $ is a variable of the generated script.
    const bool safe =
        !word.empty() && word.find_first_of(" '\"\\;&|<>*?#~`()[]{}") == std::string::npos;
    if (safe) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

Result<std::string> run_command(const std::vector<std::string>& argv, int network) {
  int out[2];
  int error[2];
  if (pipe(out) != 0) return Error{Errc::io, std::string("pipe: ") + std::strerror(errno)};
  if (pipe(error) != 0) {
    close(out[0]);
    close(out[1]);
    return Error{Errc::io, std::string("pipe: ") + std::strerror(errno)};
  }
  const pid_t pid = fork();
  if (pid == 0) become(argv, network, out[1], error[1]);
  close(out[1]);
  close(error[1]);

  std::string texts[2];
  std::array<pollfd, 2> ends{pollfd{.fd = out[0], .events = POLLIN, .revents = 0},
                             pollfd{.fd = error[0], .events = POLLIN, .revents = 0}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) break;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t size = read(ends[i].fd, buffer, sizeof buffer);
      if (size > 0) texts[i].append(buffer, static_cast<std::size_t>(size));
      if (size == 0 || (size < 0 && errno != EINTR)) ends[i].fd = -1;
    }
  }
  close(out[0]);
  close(error[0]);
  int status = -1;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return texts[0];
  if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == kNoSuchProgram) {
    return Error{Errc::unsupported, "program not found: '" + argv.front() + "'"};
  }
  while (!texts[1].empty() && texts[1].back() == '\n') texts[1].pop_back();
  return Error{Errc::io, shell_line(argv) + ": " + texts[1]};
}

}  // namespace edgedraft::netsim
