#include "shared/model/gguf_parts.h"

#include <array>
#include <cstdio>
#include <string>

namespace edgedraft {
namespace {

constexpr std::size_t kEndingBytes = sizeof "-00001-of-00003.gguf" - 1;

}  // namespace

std::filesystem::path GgufPart::path_of(std::uint32_t part) const {
  std::array<char, 2 * kEndingBytes> ending{};
  std::snprintf(ending.data(), ending.size(), "-%05u-of-%05u.gguf", part, count);
  std::filesystem::path path = beginning;
  path += ending.data();
  return path;
}

std::optional<GgufPart> gguf_part_named(const std::filesystem::path& path) {
  const std::string text = path.string();
  if (text.size() <= kEndingBytes) return std::nullopt;
  const std::string ending = text.substr(text.size() - kEndingBytes);
  GgufPart part{.beginning = text.substr(0, text.size() - kEndingBytes), .number = 0, .count = 0};
  if (std::sscanf(ending.c_str(), "-%5u-of-%5u", &part.number, &part.count) != 2) {
    return std::nullopt;
  }
  // Rejects anything else in the name, and characters that sscanf accepts beside digits.
  if (part.number == 0 || part.number > part.count || part.path_of(part.number) != path) {
    return std::nullopt;
  }
  return part;
}

std::vector<std::filesystem::path> gguf_files_of(const std::filesystem::path& path) {
  const auto part = gguf_part_named(path);
  if (!part) return {path};
  std::vector<std::filesystem::path> paths;
  for (std::uint32_t i = 1; i <= part->count; ++i) paths.push_back(part->path_of(i));
  return paths;
}

}  // namespace edgedraft
