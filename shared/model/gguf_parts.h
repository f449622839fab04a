#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace edgedraft {

// Large models are split into several GGUF files that find each other by name:
// NAME-00001-of-00003.gguf, then 00002.
//
// Source    the ggml project's gguf-split
struct GgufPart {
  std::filesystem::path beginning;  // folder and NAME
  std::uint32_t number;             // from 1
  std::uint32_t count;

  std::filesystem::path path_of(std::uint32_t part) const;
};

// Nullopt if the name is not a part's.
std::optional<GgufPart> gguf_part_named(const std::filesystem::path& path);

// All files of the model that includes `path`, in order; they need not exist. Only `path` if its
// name is not a part's.
std::vector<std::filesystem::path> gguf_files_of(const std::filesystem::path& path);

}  // namespace edgedraft
