#include "server/program/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace edgedraft::server {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

std::uint64_t machine_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return 0;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

// Lowest limit in files of that name from the folder `group` below `mount` upwards. In a container
// the mount may start at the container's own group while the process sees the group's full path;
// missing folders are ignored.
std::uint64_t limit_upwards(const std::filesystem::path& mount, std::filesystem::path group,
                            const char* name) {
  std::uint64_t least = kNoLimit;
  for (;; group = group.parent_path()) {
    std::ifstream in(mount / group / name);
    std::uint64_t limit = 0;  // "max" means no limit
    if (in >> limit) least = std::min(least, limit);
    if (!group.has_relative_path()) return least;
  }
}

// True if `name` is in a list such as "cpu,memory".
bool has_controller(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == name) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

}  // namespace

std::uint64_t control_group_limit(const std::filesystem::path& root) {
  const std::filesystem::path mount = root / "sys/fs/cgroup";
  std::uint64_t least = kNoLimit;
  // NUMBER:CONTROLLERS:PATH, without controllers in version 2.
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::filesystem::path group =
        std::filesystem::path(line.substr(second + 1)).relative_path();
    if (controllers.empty()) {
      least = std::min(least, limit_upwards(mount, group, "memory.max"));
    } else if (has_controller(controllers, "memory")) {
      least = std::min(least, limit_upwards(mount / "memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

std::uint64_t usable_memory_bytes() {
  const std::uint64_t machine = machine_memory_bytes();
  const std::uint64_t allowed = control_group_limit("/");
  if (machine == 0) return allowed == kNoLimit ? 0 : allowed;
  return std::min(machine, allowed);
}

}  // namespace edgedraft::server
