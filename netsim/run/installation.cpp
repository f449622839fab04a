#include "netsim/run/installation.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <vector>

namespace edgedraft::netsim {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& file) {
  return access(file.c_str(), X_OK) == 0 && fs::is_regular_file(file);
}

fs::path first_folder(std::initializer_list<fs::path> folders) {
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    if (fs::is_directory(folder, ignored)) return folder.lexically_normal();
  }
  return *(folders.end() - 1);
}

}  // namespace

fs::path own_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

fs::path share_folder() {
  return first_folder({own_program().parent_path() / "../share/edgedraft/netsim",
                       fs::path(EDGEDRAFT_SOURCE) / "netsim"});
}

fs::path models_folder() {
  return first_folder({own_program().parent_path() / "../share/edgedraft/models/demo",
                       fs::path(EDGEDRAFT_SOURCE) / "models/demo"});
}

Result<fs::path> find_lab(const fs::path& given) {
  if (!given.empty()) {
    if (is_program(given)) return fs::absolute(given);
    return Error{Errc::io, "--lab-program " + given.string() + ": not a program"};
  }
  constexpr const char* kName = "edgedraft-lab";
  const fs::path here = own_program().parent_path();
  std::vector<fs::path> candidates{here / kName, here / "lab" / kName};
  std::stringstream path(std::getenv("PATH") ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) {
    candidates.push_back(fs::path(folder) / kName);
  }
  for (const fs::path& candidate : candidates) {
    if (is_program(candidate)) return fs::canonical(candidate);
  }
  return Error{Errc::io,
               "edgedraft-lab not found beside edgedraft-netsim or in PATH; build it, or give its "
               "path with --lab-program"};
}

}  // namespace edgedraft::netsim
