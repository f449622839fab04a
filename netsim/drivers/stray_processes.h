#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace edgedraft::netsim {

// The network namespaces of a link: their inodes, which name them for as long as they live, and
// under which descriptor the link's process holds them. All zero where a link has none.
struct LinkNamespaces {
  std::uint64_t server_inode = 0;
  std::uint64_t device_inode = 0;
  int server_descriptor = -1;
  int device_descriptor = -1;
  bool own_user = false;  // in a user namespace that the link's process owns
};

// The environment variable, name and value, that every process at an end of the link carries whose
// process is `link`. It names the process by its start time too, since ids come back.
std::string link_mark(pid_t link);

// Kills whatever carries the mark or lives in the namespaces, except this process, and waits for a
// moment until it is gone. Touches nothing else.
//
// Requires  this process holds the namespaces open, or names none: an inode that is free is given
//           to another namespace
void end_processes_of(const std::string& mark, const LinkNamespaces& namespaces);

// The same for what carries the mark of a link whose process no longer lives: the leftovers of a
// run all of whose own processes were killed.
void end_stray_processes();

}  // namespace edgedraft::netsim
