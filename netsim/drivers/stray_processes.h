#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace edgedraft::netsim {

// Network namespaces of a link: their inodes, which identify them while they exist, and the link
// process's descriptors for them. All zero for a link without any.
struct LinkNamespaces {
  std::uint64_t server_inode = 0;
  std::uint64_t device_inode = 0;
  int server_descriptor = -1;
  int device_descriptor = -1;
  bool own_user = false;  // in a user namespace that the link process owns
};

// Environment variable, name and value, of every process at an end of the link with process `link`.
// It includes the process's start time, since ids are reused.
std::string link_mark(pid_t link);

// Kills processes with the mark or in the namespaces, except this one, and waits briefly until they
// are gone.
//
// Requires  this process holds the namespaces open, or passes none: a freed inode is reused for
//           another namespace
void end_processes_of(const std::string& mark, const LinkNamespaces& namespaces);

// As above, for marks of links whose process was killed.
void end_stray_processes();

}  // namespace edgedraft::netsim
