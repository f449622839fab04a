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

// What a driver asks of its link's process.
struct LinkRequest {
  enum class Kind : std::uint32_t { fire, statistics, listen, stop };

  Kind kind = Kind::stop;
  LinkEvent event;         // fire
  std::uint16_t port = 0;  // listen: the server's port
};

struct LinkReply {
  bool failed = false;
  Errc code = Errc::io;
  char text[1000] = {};  // where it failed: why
  LinkStatistics statistics;
  std::uint16_t port = 0;
  // The first reply: the namespaces that were made, if any.
  LinkNamespaces namespaces;
};

// The link's process sees its maker through this.
class LinkChannel {
 public:
  explicit LinkChannel(int socket) : socket_(socket) {}

  // Readable when a request has come or the maker is gone.
  int descriptor() const { return socket_; }
  // Answers the next request; false if it was `stop`, or the maker is gone.
  bool serve(const std::function<Result<LinkReply>(const LinkRequest&)>& answer);
  void reply(const LinkReply& reply);
  void reply(const Error& error);
  // As a reply has told the maker.
  const LinkNamespaces& namespaces() const { return namespaces_; }

 private:
  int socket_;
  LinkNamespaces namespaces_;
};

// A process of its own that carries a link. It notices the end of its maker by the closed socket
// between them, whichever way that ends, and then ends what runs at the link's ends and itself.
class LinkProcess {
 public:
  // Runs `body` in the new process. It replies once when the link is up, or returns why it
  // cannot be, and then answers requests until `stop`.
  static Result<std::unique_ptr<LinkProcess>> start(
      const std::function<Result<void>(LinkChannel&)>& body);
  ~LinkProcess();

  Result<LinkReply> ask(const LinkRequest& request);
  const LinkNamespaces& namespaces() const { return first_.namespaces; }

  // `argv` with the mark by which the link's processes know what to end, in the namespace that the
  // link's process holds open as `descriptor`; -1: in none.
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

// Set, in the link's process, by SIGTERM.
bool link_process_must_end();

}  // namespace edgedraft::netsim
