#include "tests/walls/source_tree.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <utility>

namespace edgedraft::test {
namespace {

// The standard headers that provide a name; any one of them suffices.
const std::map<std::string, std::vector<std::string>>& standard_names() {
  static const std::map<std::string, std::vector<std::string>> names = {
      {"any_of", {"algorithm"}},
      {"array", {"array"}},
      {"atomic", {"atomic"}},
      {"bit_cast", {"bit"}},
      {"byte", {"cstddef"}},
      {"chrono", {"chrono"}},
      {"condition_variable", {"condition_variable"}},
      {"copy", {"algorithm"}},
      {"deque", {"deque"}},
      {"error_code", {"system_error"}},
      {"exception_ptr", {"exception"}},
      {"exchange", {"utility"}},
      {"filesystem", {"filesystem"}},
      {"fill", {"algorithm"}},
      {"function", {"functional"}},
      {"initializer_list", {"initializer_list"}},
      {"int16_t", {"cstdint"}},
      {"int32_t", {"cstdint"}},
      {"int64_t", {"cstdint"}},
      {"int8_t", {"cstdint"}},
      {"jthread", {"thread"}},
      {"list", {"list"}},
      {"make_shared", {"memory"}},
      {"make_unique", {"memory"}},
      {"map", {"map"}},
      {"max", {"algorithm"}},
      {"memcpy", {"cstring"}},
      {"min", {"algorithm"}},
      {"move", {"utility"}},
      {"mutex", {"mutex"}},
      {"numeric_limits", {"limits"}},
      {"optional", {"optional"}},
      {"ostream", {"iosfwd", "ostream", "iostream"}},
      {"ostringstream", {"sstream"}},
      {"pair", {"utility"}},
      {"runtime_error", {"stdexcept"}},
      {"set", {"set"}},
      {"shared_ptr", {"memory"}},
      {"size_t", {"cstddef"}},
      {"sort", {"algorithm"}},
      {"span", {"span"}},
      {"sqrt", {"cmath"}},
      {"string", {"string"}},
      {"string_view", {"string_view", "string"}},  // a string converts to it
      {"swap", {"utility"}},
      {"thread", {"thread"}},
      {"to_string", {"string"}},
      {"tuple", {"tuple"}},
      {"uint16_t", {"cstdint"}},
      {"uint32_t", {"cstdint"}},
      {"uint64_t", {"cstdint"}},
      {"uint8_t", {"cstdint"}},
      {"unique_ptr", {"memory"}},
      {"unordered_map", {"unordered_map"}},
      {"unordered_set", {"unordered_set"}},
      {"variant", {"variant"}},
      {"vector", {"vector"}},
      {"weak_ptr", {"memory"}},
  };
  return names;
}

// Replaces comments by spaces and removes the contents of literals, except include paths.
std::string bare(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text.compare(at, 2, "//") == 0) {
      at = std::min(text.find('\n', at), text.size());
    } else if (text.compare(at, 2, "/*") == 0) {
      const std::size_t end = text.find("*/", at + 2);
      at = end == text.npos ? text.size() : end + 2;
      out += ' ';
    } else if (text.compare(at, 3, "R\"(") == 0) {
      const std::size_t end = text.find(")\"", at);
      at = end == text.npos ? text.size() : end + 2;
      out += "\"\"";
    } else if (text[at] == '"') {
      const std::size_t line = out.rfind('\n') + 1;  // 0 if there is none
      const bool include = out.find("#include", line) != out.npos;
      std::size_t end = at + 1;
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      out += include ? text.substr(at, end - at) : "\"\"";
      at = end;
    } else {
      out += text[at++];
    }
  }
  return out;
}

bool is_word(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The unqualified words of a text: not after "::", "." or "->". Words of std:: are kept separately.
struct Words {
  std::set<std::string> own;
  std::set<std::string> standard;
};

Words words_of(const std::string& text) {
  Words words;
  for (std::size_t at = 0; at < text.size();) {
    if (!is_word(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const char before = at > 0 ? text[at - 1] : ' ';
    if (at >= 5 && text.compare(at - 5, 5, "std::") == 0) {
      words.standard.insert(text.substr(at, end - at));
    } else if (before != ':' && before != '.' && before != '>') {
      words.own.insert(text.substr(at, end - at));
    }
    at = end;
  }
  return words;
}

// Types and constants declared at the start of a line, as at namespace scope.
std::set<std::string> declared_names(const std::string& text) {
  static const std::regex pattern(
      R"(\n(?:(?:class|struct|union|enum class|enum)\s+([A-Z]\w+)[^;{(]*\{)"
      R"(|using\s+([A-Z]\w+)\s*=|(?:inline )?constexpr\s[^=;(\n]*\b(k[A-Z]\w+)\s*[=\[]))");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    for (std::size_t group = 1; group < it->size(); ++group) {
      if ((*it)[group].matched) names.insert((*it)[group].str());
    }
  }
  return names;
}

// Names that a header declares anywhere, including forward declarations and template parameters.
std::set<std::string> known_names(const std::string& text) {
  static const std::regex pattern(
      R"((?:class|struct|union|enum|typename)(?:\.\.\.)?\s+([A-Z]\w+)|using\s+(\w+)\s*=)"
      R"(|\b(k[A-Z]\w+)\s*=[^=]|\b(?:bool|int|size_t|unsigned|uint32_t)\s+(k[A-Z]\w+))");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    for (std::size_t group = 1; group < it->size(); ++group) {
      if ((*it)[group].matched) names.insert((*it)[group].str());
    }
  }
  return names;
}

// Maps each name that exactly one header declares to that header.
std::map<std::string, std::string> homes(const SourceTree& tree) {
  std::map<std::string, std::set<std::string>> found;
  for (const auto& [path, source] : tree) {
    if (!is_header(path)) continue;
    for (const std::string& name : declared_names(source.text)) found[name].insert(path);
  }
  std::map<std::string, std::string> result;
  for (const auto& [name, paths] : found) {
    if (paths.size() == 1) result[name] = *paths.begin();
  }
  return result;
}

}  // namespace

bool is_header(const std::string& path) {
  return path.ends_with(".h") || path.ends_with(".cuh");
}

Source parse_source(const std::string& text) {
  Source source;
  source.text = "\n" + bare(text);
  std::istringstream lines(source.text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t hash = line.find_first_not_of(" \t");
    if (hash == line.npos || line[hash] != '#') continue;
    const std::size_t word = line.find_first_not_of(" \t", hash + 1);
    if (word == line.npos || line.compare(word, 7, "include") != 0) continue;
    const std::size_t open = line.find_first_of("<\"", word);
    if (open == line.npos) continue;
    const std::size_t close = line.find_first_of(">\"", open + 1);
    if (close == line.npos) continue;
    const std::string name = line.substr(open + 1, close - open - 1);
    source.includes.push_back(name);
    if (line[open] == '"') source.quoted.push_back(name);
  }
  return source;
}

SourceTree read_sources(const std::filesystem::path& root,
                        const std::vector<std::string>& folders) {
  SourceTree tree;
  for (const std::string& folder : folders) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string path = entry.path().lexically_relative(root).generic_string();
      const bool ours = is_header(path) || path.ends_with(".cpp") || path.ends_with(".cu");
      if (!ours || !entry.is_regular_file()) continue;
      std::ifstream file(entry.path());
      tree[path] = parse_source({std::istreambuf_iterator<char>(file), {}});
    }
  }
  return tree;
}

std::set<std::string> reachable(const SourceTree& tree, const std::string& path) {
  std::set<std::string> seen;
  std::vector<std::string> open = {path};
  while (!open.empty()) {
    const auto source = tree.find(open.back());
    open.pop_back();
    if (source == tree.end()) continue;
    for (const std::string& name : source->second.includes) {
      if (seen.insert(name).second) open.push_back(name);
    }
  }
  return seen;
}

std::map<std::string, std::vector<std::string>> undeclared_names(const SourceTree& tree) {
  const std::map<std::string, std::string> where = homes(tree);
  std::map<std::string, std::set<std::string>> known_of;
  for (const auto& [path, source] : tree) {
    if (is_header(path)) known_of[path] = known_names(source.text);
  }
  std::map<std::string, std::vector<std::string>> result;
  for (const auto& [path, source] : tree) {
    if (!is_header(path)) continue;
    const std::set<std::string> headers = reachable(tree, path);
    std::set<std::string> known = known_of[path];
    for (const std::string& header : headers) {
      const auto included = known_of.find(header);
      if (included != known_of.end())
        known.insert(included->second.begin(), included->second.end());
    }
    const Words words = words_of(source.text);
    std::vector<std::string> missing;
    for (const std::string& name : words.standard) {
      const auto needs = standard_names().find(name);
      if (needs == standard_names().end()) continue;
      const auto is_there = [&](const std::string& header) { return headers.contains(header); };
      if (std::ranges::none_of(needs->second, is_there)) {
        missing.push_back("std::" + name + " (<" + needs->second.front() + ">)");
      }
    }
    for (const std::string& name : words.own) {
      const auto home = where.find(name);
      if (home == where.end() || home->second == path || known.contains(name)) continue;
      if (!headers.contains(home->second)) missing.push_back(name + " (" + home->second + ")");
    }
    if (!missing.empty()) result[path] = std::move(missing);
  }
  return result;
}

}  // namespace edgedraft::test
