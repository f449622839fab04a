#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace edgedraft {

// Number of threads for a computation: one per available core that is at least half as fast as the
// fastest available one. Phones have small cores at a quarter of the speed, and every loop would
// wait for their threads. If the system reports no speeds, all permitted cores count. Never 0.
std::uint32_t fast_cores();

// As above, for the given cores and a folder such as /sys/devices/system/cpu, which holds a core's
// speed in cpuN/cpu_capacity. Returns the number of cores if any speed is missing.
std::uint32_t fast_cores(const std::filesystem::path& folder, std::span<const std::uint32_t> cores);

}  // namespace edgedraft
