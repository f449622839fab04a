#include "shared/base/fast_cores.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace edgedraft {
namespace {

#if defined(__linux__)
std::vector<std::uint32_t> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<std::uint32_t> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}
#endif

// Returns 0 if the system reports no speeds.
std::uint32_t told_by_system() {
#if defined(__linux__)
  return fast_cores("/sys/devices/system/cpu", allowed_cores());
#elif defined(__APPLE__)
  std::int32_t count = 0;
  std::size_t bytes = sizeof count;
  if (sysctlbyname("hw.perflevel0.logicalcpu", &count, &bytes, nullptr, 0) != 0) return 0;
  return static_cast<std::uint32_t>(std::max(0, count));
#else
  return 0;
#endif
}

}  // namespace

std::uint32_t fast_cores(const std::filesystem::path& folder,
                         std::span<const std::uint32_t> cores) {
  const auto all = static_cast<std::uint32_t>(cores.size());
  std::vector<std::uint32_t> capacities;
  for (const std::uint32_t core : cores) {
    std::ifstream in(folder / ("cpu" + std::to_string(core)) / "cpu_capacity");
    std::uint32_t capacity = 0;
    if (!(in >> capacity) || capacity == 0) return all;
    capacities.push_back(capacity);
  }
  if (capacities.empty()) return all;
  const std::uint32_t enough = (std::ranges::max(capacities) + 1) / 2;
  return static_cast<std::uint32_t>(
      std::ranges::count_if(capacities, [&](std::uint32_t c) { return c >= enough; }));
}

std::uint32_t fast_cores() {
  const std::uint32_t count = told_by_system();
  return count > 0 ? count : std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace edgedraft
