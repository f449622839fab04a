#include "shared/base/text_file.h"

#include <cerrno>
#include <fstream>
#include <iostream>
#include <system_error>

namespace edgedraft {

Result<std::string> read_text(const std::filesystem::path& file, std::uint64_t bytes_max) {
  const bool standard_input = file == "-";
  const std::string name = standard_input ? "standard input" : file.string();
  std::ifstream opened;
  if (!standard_input) {
    if (std::filesystem::is_directory(file)) return Error{Errc::io, name + ": it is a folder"};
    opened.open(file, std::ios::binary);
    if (!opened) {
      return Error{Errc::io, name + ": " + std::generic_category().message(errno)};
    }
  }
  std::istream& in = standard_input ? std::cin : opened;
  std::string text;
  char block[1 << 16];
  while (in.read(block, sizeof block) || in.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    if (text.size() > bytes_max) {
      return Error{Errc::usage, name + ": longer than " + std::to_string(bytes_max) + " bytes"};
    }
  }
  if (in.bad()) return Error{Errc::io, name + ": cannot be read"};
  return text;
}

}  // namespace edgedraft
