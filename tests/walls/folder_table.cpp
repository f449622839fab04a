#include "tests/walls/folder_table.h"

#include <functional>
#include <sstream>
#include <string_view>
#include <utility>

namespace edgedraft::test {
namespace {

constexpr std::string_view kBegin = "```folders\n";

Error bad(std::string message) {
  return {Errc::bad_file, std::move(message)};
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

Result<FolderTable> FolderTable::parse(const std::string& page) {
  const std::size_t begin = page.find(kBegin);
  const std::size_t end = begin == page.npos ? begin : page.find("\n```", begin);
  if (end == page.npos) return bad("missing block ```folders");
  std::map<std::string, std::set<std::string>> direct;
  std::istringstream lines(page.substr(begin + kBegin.size(), end - begin - kBegin.size()));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos) return bad("line without a colon: " + line);
    const auto [entry, is_new] = direct.try_emplace(trimmed(line.substr(0, colon)));
    if (!is_new) return bad("duplicate line for " + entry->first);
    std::istringstream names(line.substr(colon + 1));
    for (std::string name; std::getline(names, name, ',');) {
      if (!trimmed(name).empty()) entry->second.insert(trimmed(name));
    }
  }

  FolderTable table;
  std::set<std::string> open;
  std::function<Result<void>(const std::string&)> close =
      [&](const std::string& folder) -> Result<void> {
    if (table.below_.contains(folder)) return {};
    if (!direct.contains(folder)) return bad("no line for " + folder);
    if (!open.insert(folder).second) return bad("cycle through " + folder);
    std::set<std::string> below;
    for (const std::string& name : direct.at(folder)) {
      if (auto closed = close(name); !closed) return closed;
      below.insert(name);
      below.insert(table.below_.at(name).begin(), table.below_.at(name).end());
    }
    open.erase(folder);
    table.below_[folder] = std::move(below);
    return {};
  };
  for (const auto& [folder, names] : direct) {
    if (auto closed = close(folder); !closed) return closed.error();
  }
  return table;
}

std::string FolderTable::folder_of(const std::string& path) const {
  if (below_.contains(path)) return path;
  for (std::size_t end = path.rfind('/'); end != path.npos; end = path.rfind('/', end - 1)) {
    if (below_.contains(path.substr(0, end))) return path.substr(0, end);
    if (end == 0) break;
  }
  return {};
}

bool FolderTable::allows(const std::string& from, const std::string& to) const {
  return from == to || (below_.contains(from) && below_.at(from).contains(to));
}

}  // namespace edgedraft::test
