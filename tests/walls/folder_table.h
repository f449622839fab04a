#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace edgedraft::test {

// Which folder may include which: the table of docs/architecture.md.
class FolderTable {
 public:
  // Reads the fenced block ```folders of a page: a line per folder, "folder: folder, folder".
  // Errors    bad_file: no such block, a folder that has no line or two, or a circle
  static Result<FolderTable> parse(const std::string& page);

  // The folder with the longest name that holds the file; empty where none does. A line may name a
  // file as well: a program's main.cpp, which stands above what lies beside it, or a header that
  // may be included where the rest of its folder may not.
  std::string folder_of(const std::string& path) const;
  // A folder may include itself, what its line names, and what these may.
  bool allows(const std::string& from, const std::string& to) const;

 private:
  std::map<std::string, std::set<std::string>> below_;  // with all that lies further below
};

}  // namespace edgedraft::test
