#pragma once

#include <cstdint>
#include <filesystem>

namespace edgedraft {

// The bytes of memory that this process may fill: the machine's, or what a control group of
// Linux's, as containers and systemd units have them, allows it and what is beside it in the group.
// 0: unknown.
std::uint64_t usable_memory_bytes();

// The least that a control group of this process or one above it allows, by the files below `root`,
// which is "/" but in tests; the largest number where none has a limit. Both versions of control
// groups are looked at where they are usually mounted.
std::uint64_t control_group_limit(const std::filesystem::path& root);

}  // namespace edgedraft
