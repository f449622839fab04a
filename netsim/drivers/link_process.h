#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "netsim/drivers/link_driver.h"
#include "netsim/drivers/stray_processes.h"

namespace edgedraft::netsim {

// A driver's request to its link process.
struct LinkRequest {
  enum class Kind : std::uint32_t { fire, statistics, listen, stop };

  Kind kind = Kind::stop;
  LinkEvent event;         // fire
  std::uint16_t port = 0;  // listen: the server's port
};

struct LinkReply {
  bool failed = false;
  Errc code = Errc::io;
  char text[1000] = {};  // reason of a failure
  LinkStatistics statistics;
  std::uint16_t port = 0;
  // First reply: the created namespaces, if any.
  LinkNamespaces namespaces;
};

// The link process's channel to its creator.
class LinkChannel {
 public:
  explicit LinkChannel(int socket) : socket_(socket) {}

  // Readable if a request has arrived or the creator is gone.
  int descriptor() const { return socket_; }
  // Answers the next request; false after `stop`, or if the creator is gone.
  bool serve(const std::function<Result<LinkReply>(const LinkRequest&)>& answer);
  void reply(const LinkReply& reply);
  void reply(const Error& error);
  // Reply to the creator.
  const LinkNamespaces& namespaces() const { return namespaces_; }

 private:
  int socket_;
  LinkNamespaces namespaces_;
};

// A process that carries a link. It detects its creator's end, however it occurs, by their closed
// socket, and then ends the processes at the link's ends and itself.
class LinkProcess {
 public:
  // Runs `body` in the new process. It replies once when the link is up, or returns the error, and
  // then answers requests until `stop`.
  static Result<std::unique_ptr<LinkProcess>> start(
      const std::function<Result<void>(LinkChannel&)>& body);
  ~LinkProcess();

  Result<LinkReply> ask(const LinkRequest& request);
  const LinkNamespaces& namespaces() const { return first_.namespaces; }

  // `argv` with the mark that identifies the link's processes, in the namespace the link process
  // holds open as `descriptor`; -1: no namespace.
  std::vector<std::string> at_end(int descriptor, const std::vector<std::string>& argv) const;

 private:
  LinkProcess(pid_t pid, int socket) : pid_(pid), socket_(socket) {}
  void pin_namespaces();

  pid_t pid_;
  int socket_;
  std::string mark_;
  LinkReply first_;
  std::vector<int> pinned_;  // descriptors of the namespaces
  std::mutex mutex_;
};

// Set in the link process by SIGTERM.
bool link_process_must_end();

}  // namespace edgedraft::netsim
