#include "netsim/drivers/process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

extern char** environ;

namespace edgedraft::netsim {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_of(const ProcessOptions& options) {
  std::vector<std::string> variables;
  for (char** v = environ; *v; ++v) {
    // Our own option variables must not affect an experiment.
    const std::string variable = *v;
    if (!options.attached && variable.starts_with("EDGEDRAFT_")) continue;
    // Of two variables with one name, programs see the first.
    if (options.environment.contains(variable.substr(0, variable.find('=')))) continue;
    variables.push_back(variable);
  }
  for (const auto& [name, value] : options.environment) variables.push_back(name + '=' + value);
  return variables;
}

}  // namespace

Result<Process> Process::start(const ProcessOptions& options) {
  std::vector<std::string> words = options.argv;
  const std::vector<char*> argv = pointers(words);
  std::vector<std::string> variables = environment_of(options);
  const std::vector<char*> envp = pointers(variables);
  const std::string output = options.output.string();
  const std::string errors = options.errors.string();
  std::array<int, 2> failure{};  // pipe for errno if exec fails; closed if it succeeds
  if (pipe2(failure.data(), O_CLOEXEC) != 0) {
    return Error{Errc::io,
                 std::string("cannot create a pipe for a program: ") + std::strerror(errno)};
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // Only async-signal-safe calls between fork and exec.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    bool ready = options.attached;
    if (!options.attached) {
      // We handle Ctrl-C ourselves.
      setpgid(0, 0);
      const int in = open("/dev/null", O_RDONLY);
      const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      const int err = open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ready = in >= 0 && out >= 0 && err >= 0;
      if (ready) {
        dup2(in, 0);
        dup2(out, 1);
        dup2(err, 2);
      }
    }
    if (options.network >= 0) ready = setns(options.network, CLONE_NEWNET) == 0 && ready;
    if (ready) execvpe(argv[0], argv.data(), envp.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t told = write(failure[1], &error, sizeof error);
    _exit(127);
  }
  close(failure[1]);
  int error = pid < 0 ? errno : 0;
  if (pid > 0 && read(failure[0], &error, sizeof error) <= 0) error = 0;
  close(failure[0]);
  Process process;
  process.pid_ = pid;
  process.grace_ = options.grace;
  if (error != 0) {
    if (pid > 0) process.wait_until(Clock::now() + std::chrono::seconds(5));
    return Error{Errc::io, options.argv[0] + " cannot be started: " + std::strerror(error)};
  }
  return process;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), grace_(other.grace_), status_(other.status_) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(grace_, other.grace_);
  std::swap(status_, other.status_);
  return *this;
}

Process::~Process() {
  if (running()) end(grace_);
}

bool Process::running() {
  if (pid_ < 0) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == 0) return true;
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  pid_ = -1;
  return false;
}

bool Process::wait_until(Instant deadline, const std::function<bool()>& cancelled) {
  while (running()) {
    if (Clock::now() >= deadline || cancelled()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

void Process::signal(int number) {
  if (pid_ > 0) kill(pid_, number);
}

void Process::end(Duration grace) {
  signal(SIGTERM);
  if (wait_until(Clock::now() + grace)) return;
  signal(SIGKILL);
  wait_until(Instant::max());
}

std::string read_output(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string last_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::string last;
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "edgedraft-XXXXXX").string();
  if (!mkdtemp(name.data())) throw Failure({Errc::io, name + ": cannot be created"});
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace edgedraft::netsim
