#pragma once

#include <cstdint>
#include <filesystem>

namespace edgedraft::server {

// Bytes of memory this process may fill; 0: unknown. It is the machine's, or the limit of its Linux
// control group (container, systemd unit), which all processes of the group share.
std::uint64_t usable_memory_bytes();

// Lowest limit of this process's control group and its parents, from files below `root` ("/"
// outside tests). If there is no limit, the result is far above any machine's memory. Covers
// control groups v1 and v2 at their usual mount points.
std::uint64_t control_group_limit(const std::filesystem::path& root);

}  // namespace edgedraft::server
