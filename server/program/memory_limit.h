#pragma once

#include <cstdint>
#include <filesystem>

namespace edgedraft {

// The bytes of memory that this process may fill: the machine's, or less where a Linux control
// group (a container's, a systemd unit's) limits it together with the group's other processes. 0:
// unknown.
std::uint64_t usable_memory_bytes();

// The least that a control group of this process or one above it allows, by the files below `root`,
// which is "/" but in tests; a number far above any machine's memory where none has a limit. Both
// versions of control groups are looked at where they are usually mounted.
std::uint64_t control_group_limit(const std::filesystem::path& root);

}  // namespace edgedraft
