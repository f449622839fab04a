#include "netsim/drivers/link_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace edgedraft::netsim {
namespace {

// Long enough for a busy machine; beyond it the link process counts as hung.
constexpr int kReplyTimeoutMs = 30'000;

volatile sig_atomic_t must_end = 0;

void on_sigterm(int) {
  must_end = 1;
}

Error gone() {
  return {Errc::link_down, "the emulated link's process has ended; build the link again"};
}

Result<LinkReply> receive_reply(int socket) {
  pollfd readable{.fd = socket, .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&readable, 1, kReplyTimeoutMs);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    return Error{Errc::timed_out, "the emulated link's process does not answer"};
  }
  LinkReply reply;
  if (recv(socket, &reply, sizeof reply, 0) != static_cast<ssize_t>(sizeof reply)) return gone();
  if (reply.failed) return Error{reply.code, reply.text};
  return reply;
}

// Closes all inherited descriptors except standard error and the socket.
void separate(int socket) {
  // Ctrl-C goes to the creator, which then ends the link in order.
  setpgid(0, 0);
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);
  struct sigaction action = {};
  action.sa_handler = on_sigterm;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  const int null = open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  dup2(socket, 3);
  fcntl(3, F_SETFD, FD_CLOEXEC);
  syscall(SYS_close_range, 4u, ~0u, 0u);

  prctl(PR_SET_NAME, "netsim-link");
  // Microsecond wake-ups and, if allowed, priority over the measured programs.
  prctl(PR_SET_TIMERSLACK, 1);
  const sched_param priority{.sched_priority = 1};
  sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &priority);
}

}  // namespace

bool link_process_must_end() {
  return must_end != 0;
}

bool LinkChannel::serve(const std::function<Result<LinkReply>(const LinkRequest&)>& answer) {
  LinkRequest request;
  const ssize_t size = recv(socket_, &request, sizeof request, 0);
  if (size != static_cast<ssize_t>(sizeof request)) return false;
  if (request.kind == LinkRequest::Kind::stop) {
    reply(LinkReply{});
    return false;
  }
  const auto answered = answer(request);
  answered ? reply(*answered) : reply(answered.error());
  return true;
}

void LinkChannel::reply(const LinkReply& reply) {
  if (reply.namespaces.server_inode != 0) namespaces_ = reply.namespaces;
  // The next serve() detects a creator that is gone.
  (void)!send(socket_, &reply, sizeof reply, MSG_NOSIGNAL);
}

void LinkChannel::reply(const Error& error) {
  LinkReply failure{.failed = true, .code = error.code};
  error.message.copy(failure.text, sizeof failure.text - 1);
  reply(failure);
}

Result<std::unique_ptr<LinkProcess>> LinkProcess::start(
    const std::function<Result<void>(LinkChannel&)>& body) {
  end_stray_processes();

  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return Error{Errc::io, std::string("socketpair: ") + std::strerror(errno)};
  }
  const pid_t pid = fork();
  if (pid < 0) {
    close(sockets[0]);
    close(sockets[1]);
    return Error{Errc::io, std::string("fork: ") + std::strerror(errno)};
  }
  if (pid == 0) {
    separate(sockets[1]);
    LinkChannel channel(3);
    int status = 0;
    try {
      if (const auto done = body(channel); !done) {
        channel.reply(done.error());
        status = 1;
      }
    } catch (const std::exception& failure) {
      channel.reply(Error{Errc::io, failure.what()});
      status = 1;
    }
    end_processes_of(link_mark(getpid()), channel.namespaces());
    _exit(status);
  }
  close(sockets[1]);
  std::unique_ptr<LinkProcess> process(new LinkProcess(pid, sockets[0]));
  process->mark_ = link_mark(pid);
  const auto first = receive_reply(sockets[0]);
  if (!first) return first.error();
  process->first_ = *first;
  process->pin_namespaces();
  return process;
}

// Pins the namespaces: a released inode is reused for the next namespace, and the link process may
// be gone before its leftovers are searched.
void LinkProcess::pin_namespaces() {
  LinkNamespaces& made = first_.namespaces;
  for (const auto& [inode, descriptor] : {std::pair(&made.server_inode, made.server_descriptor),
                                          std::pair(&made.device_inode, made.device_descriptor)}) {
    if (*inode == 0) continue;
    const std::string path = "/proc/" + std::to_string(pid_) + "/fd/" + std::to_string(descriptor);
    const int pinned = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (pinned >= 0) {
      pinned_.push_back(pinned);
    } else {
      *inode = 0;  // only the mark is available
    }
  }
}

LinkProcess::~LinkProcess() {
  // A stopped process never answers and would be waited for forever.
  if (!ask({.kind = LinkRequest::Kind::stop})) kill(pid_, SIGKILL);
  close(socket_);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  // Cleans up after a link process that was killed.
  end_processes_of(mark_, first_.namespaces);
  for (const int pinned : pinned_) close(pinned);
}

Result<LinkReply> LinkProcess::ask(const LinkRequest& request) {
  const std::lock_guard lock(mutex_);
  if (send(socket_, &request, sizeof request, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof request)) {
    return gone();
  }
  return receive_reply(socket_);
}

std::vector<std::string> LinkProcess::at_end(int descriptor,
                                             const std::vector<std::string>& argv) const {
  std::vector<std::string> out{"env", mark_};
  if (descriptor >= 0) {
    const std::string process = "/proc/" + std::to_string(pid_);
    out.push_back("nsenter");
    if (first_.namespaces.own_user) {
      out.push_back("--user=" + process + "/ns/user");
      out.push_back("--preserve-credentials");
    }
    out.push_back("--net=" + process + "/fd/" + std::to_string(descriptor));
    out.push_back("--");
  }
  out.insert(out.end(), argv.begin(), argv.end());
  return out;
}

}  // namespace edgedraft::netsim
