#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace edgedraft {

// How many threads share a computation best: one for each core that this process may run on and
// that is at least half as fast as the fastest of these. Phones have small cores with a quarter of
// the speed, on which a thread makes all others wait at the end of a loop. Where the system does
// not tell speeds, all cores that this process may run on; never 0.
std::uint32_t fast_cores();

// The same of these cores by a folder such as /sys/devices/system/cpu, where Linux has a core's
// speed in cpuN/cpu_capacity; all of them where it does not tell the speed of each.
std::uint32_t fast_cores(const std::filesystem::path& folder, std::span<const std::uint32_t> cores);

}  // namespace edgedraft
