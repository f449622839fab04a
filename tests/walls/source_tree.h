#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace edgedraft::test {

// A source file as the include checks see it.
struct Source {
  std::string text;                   // without comments and the contents of literals
  std::vector<std::string> includes;  // in order, without quotes or brackets
  std::vector<std::string> quoted;    // the quoted ones
};

// All C++ and CUDA files in the source folders of a checkout, by path from its root.
using SourceTree = std::map<std::string, Source>;

SourceTree read_sources(const std::filesystem::path& root, const std::vector<std::string>& folders);
Source parse_source(const std::string& text);

bool is_header(const std::string& path);

// The project's own files that a file includes, directly or not.
std::set<std::string> reachable(const SourceTree& tree, const std::string& path);

// Per header, the names that it uses without including their declaration, directly or not. Covers
// the project's types and constants, and common names of the standard library. Each entry is "name
// (header)". Names that two headers declare are ignored.
std::map<std::string, std::vector<std::string>> undeclared_names(const SourceTree& tree);

}  // namespace edgedraft::test
