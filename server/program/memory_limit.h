#pragma once

#include <cstdint>
#include <filesystem>

namespace edgedraft::server {

// Bytes of memory this process may fill: the machine's, or the limit of its Linux control group
// (container, systemd unit), which all processes of the group share. 0: unknown.
std::uint64_t usable_memory_bytes();

// Lowest limit of this process's control group and its parents, from files below `root`, "/"
// outside tests; far above any machine's memory if there is no limit. Covers control groups v1 and
// v2 at their usual mount points.
std::uint64_t control_group_limit(const std::filesystem::path& root);

}  // namespace edgedraft::server
