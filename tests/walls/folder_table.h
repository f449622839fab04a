#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft::test {

// The include rules between folders: the table of docs/architecture.md.
class FolderTable {
 public:
  // Reads the fenced block ```folders of a page: one line per folder, "folder: folder, folder".
  // Errors    bad_file: no such block, a folder without exactly one line, or a cycle
  static Result<FolderTable> parse(const std::string& page);

  // The longest listed folder that contains the file; empty if there is none. A line may also name
  // a file: a program's main.cpp, which may include its neighbours, or a header with more includers
  // than the rest of its folder.
  std::string folder_of(const std::string& path) const;
  // A folder may include itself, the folders on its line, and those that they may include.
  bool allows(const std::string& from, const std::string& to) const;

 private:
  std::map<std::string, std::set<std::string>> below_;  // transitive
};

}  // namespace edgedraft::test
