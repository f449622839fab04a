#include "netsim/drivers/stray_processes.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

namespace edgedraft::netsim {
namespace {

constexpr std::string_view kVariable = "EDGEDRAFT_NETSIM_LINK=";

std::string proc(pid_t pid, const char* file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

// Field 22 of /proc/PID/stat, in clock ticks since boot; nullopt if the process is gone or a
// zombie.
std::optional<std::string> start_time(pid_t pid) {
  std::ifstream file(proc(pid, "stat"));
  // If the process ends meanwhile, the read fails; an iterator would throw.
  std::string text;
  std::getline(file, text, '\0');
  // The name, in parentheses, may contain any character.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 22 && fields >> field; ++number) {
    if (number == 3 && (field == "Z" || field == "X")) return std::nullopt;
  }
  return fields ? std::optional(field) : std::nullopt;
}

// A process's mark; empty if it has none.
std::string mark_of(pid_t pid) {
  std::ifstream file(proc(pid, "environ"), std::ios::binary);
  std::string variable;
  while (std::getline(file, variable, '\0')) {
    if (variable.starts_with(kVariable)) return variable;
  }
  return {};
}

std::uint64_t namespace_of(pid_t pid, const char* kind) {
  struct stat info = {};
  return stat(proc(pid, kind).c_str(), &info) == 0 ? info.st_ino : 0;
}

bool is_alive(std::string_view mark) {
  mark.remove_prefix(kVariable.size());
  const std::size_t colon = mark.find(':');
  pid_t pid = 0;
  if (colon == std::string_view::npos ||
      std::from_chars(mark.data(), mark.data() + colon, pid).ptr != mark.data() + colon) {
    return true;  // not a mark of ours
  }
  return start_time(pid) == mark.substr(colon + 1);
}

void for_each_process(const std::function<void(pid_t)>& visit) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (failed == std::errc() && end == name.data() + name.size()) visit(pid);
  }
}

// Repeats, since a process may fork before it is killed.
void end_processes(const std::function<bool(pid_t)>& chosen) {
  for (int pass = 0; pass < 100; ++pass) {
    bool found = false;
    for_each_process([&](pid_t pid) {
      if (pid == getpid() || !start_time(pid) || !chosen(pid)) return;
      found = kill(pid, SIGKILL) == 0 || found;
    });
    if (!found) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

std::string link_mark(pid_t link) {
  return std::string(kVariable) + std::to_string(link) + ":" + start_time(link).value_or("0");
}

void end_processes_of(const std::string& mark, const LinkNamespaces& namespaces) {
  end_processes([&](pid_t pid) {
    if (mark_of(pid) == mark) return true;
    const std::uint64_t network = namespace_of(pid, "ns/net");
    return network != 0 &&
           (network == namespaces.server_inode || network == namespaces.device_inode);
  });
}

void end_stray_processes() {
  // Processes of a container are visible from outside, but the ids in their marks are from its
  // namespace.
  const std::uint64_t here = namespace_of(getpid(), "ns/pid");
  end_processes([&](pid_t pid) {
    const std::string mark = mark_of(pid);
    return !mark.empty() && namespace_of(pid, "ns/pid") == here && !is_alive(mark);
  });
}

}  // namespace edgedraft::netsim
