#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace edgedraft::test {

// A source file as the walls see it.
struct Source {
  std::string text;                   // without comments and the contents of literals
  std::vector<std::string> includes;  // in their order, without quotes or brackets
  std::vector<std::string> quoted;    // those in quotes
};

// All C++ and CUDA files below the folders of a checkout, by their paths from its root.
using SourceTree = std::map<std::string, Source>;

SourceTree read_sources(const std::filesystem::path& root, const std::vector<std::string>& folders);
Source parse_source(const std::string& text);

bool is_header(const std::string& path);

// All that a file includes, and what that includes, as far as it is ours.
std::set<std::string> reachable(const SourceTree& tree, const std::string& path);

// By header, the names that it uses and that no include of its own, at whatever distance, declares:
// types and constants of ours, and the commoner ones of the standard library. Each as
// "name (header)". A name that two headers declare is not looked at.
std::map<std::string, std::vector<std::string>> undeclared_names(const SourceTree& tree);

}  // namespace edgedraft::test
