#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace edgedraft::test {
namespace {

namespace fs = std::filesystem;

struct Page {
  std::set<std::string> anchors;
  std::set<std::string> links;
};

// GitHub's anchor of a heading: lower case, hyphens for spaces, no markup or punctuation.
std::string anchor_of(const std::string& heading) {
  static const std::regex link(R"(\[([^\]]*)\]\([^)]*\))");
  std::string anchor;
  for (const char c : std::regex_replace(heading, link, "$1")) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ') {
      anchor += '-';
    } else if (std::isalnum(byte) || byte >= 0x80 || c == '-' || c == '_') {
      anchor += static_cast<char>(std::tolower(byte));
    }
  }
  return anchor;
}

Page read_page(const fs::path& path) {
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  Page page;
  std::map<std::string, int> seen;
  bool is_code = false;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) is_code = !is_code;
    if (is_code) continue;
    if (const auto text = line.find_first_not_of('#');
        text > 0 && text != line.npos && line[text] == ' ') {
      const std::string anchor = anchor_of(line.substr(text + 1));
      const int before = seen[anchor]++;
      page.anchors.insert(before == 0 ? anchor : anchor + '-' + std::to_string(before));
    }
    for (std::sregex_iterator found(line.begin(), line.end(), link), end; found != end; ++found) {
      page.links.insert((*found)[1]);
    }
  }
  return page;
}

std::map<fs::path, Page> read_pages(const fs::path& root) {
  std::map<fs::path, Page> pages;
  for (const char* folder : {"docs", "models", "train", "netsim", "scripts"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() == ".md") pages[entry.path()] = read_page(entry.path());
    }
  }
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.path().extension() == ".md") pages[entry.path()] = read_page(entry.path());
  }
  return pages;
}

TEST(LinksTest, RelativeLinksResolve) {
  const auto pages = read_pages(EDGEDRAFT_SOURCE_DIR);
  ASSERT_GT(pages.size(), 20u);
  for (const auto& [path, page] : pages) {
    for (const std::string& link : page.links) {
      if (link.find(':') != link.npos) continue;
      const auto hash = link.find('#');
      const std::string file = link.substr(0, hash);
      const fs::path target = file.empty() ? path : (path.parent_path() / file).lexically_normal();
      EXPECT_TRUE(fs::exists(target)) << path << " links to " << link;
      if (hash == link.npos || !pages.contains(target)) continue;
      EXPECT_TRUE(pages.at(target).anchors.contains(link.substr(hash + 1)))
          << path << " links to " << link;
    }
  }
}

}  // namespace
}  // namespace edgedraft::test
