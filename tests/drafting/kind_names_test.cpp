// Only its own folder and the table may name a kind of drafter, so that a new kind is one folder
// and one line. Names are read from the table, so the test covers new kinds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "shared/drafting/kinds.h"

namespace edgedraft {
namespace {

const std::filesystem::path kRoot = EDGEDRAFT_SOURCE_DIR;

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Removes comments, which may use any word; keeps line numbers.
std::string code_of(const std::string& text, bool is_python) {
  std::string code;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (quote != 0) {
      if (c == '\\')
        code += text[i++];
      else if (c == quote || c == '\n')
        quote = 0;
    } else if (c == '"' || (c == '\'' && is_python)) {
      if (is_python && text.compare(i, 3, std::string(3, c)) == 0) {  // a docstring
        const std::size_t end = text.find(std::string(3, c), i + 3);
        const std::size_t after = end == std::string::npos ? text.size() : end + 3;
        code += std::string(static_cast<std::size_t>(std::count(&text[i], &text[0] + after, '\n')),
                            '\n');
        i = after - 1;
        continue;
      }
      quote = c;
    } else if (is_python ? c == '#' : c == '/' && next == '/') {
      i = std::min(text.find('\n', i), text.size()) - 1;
      continue;
    } else if (!is_python && c == '/' && next == '*') {
      const std::size_t end = std::min(text.find("*/", i + 2), text.size() - 2);
      code +=
          std::string(static_cast<std::size_t>(std::count(&text[i], &text[0] + end, '\n')), '\n');
      i = end + 1;
      continue;
    }
    code += text[i];
  }
  return code;
}

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}
bool is_lower(char c) {
  return std::islower(static_cast<unsigned char>(c)) != 0;
}

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// Lines with `name` as a word or as part of an identifier, path or text, such as name_drafter,
// NameDrafter, "name-tli1" or drafting/name/. A digit after it makes another name.
std::vector<std::size_t> lines_with(const std::string& code, const std::string& name) {
  std::string capital = name;
  capital[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(capital[0])));
  std::vector<std::size_t> lines;
  const auto look_for = [&](const std::string& form) {
    for (std::size_t at = code.find(form); at != std::string::npos; at = code.find(form, at + 1)) {
      const char before = at > 0 ? code[at - 1] : ' ';
      const char after = at + form.size() < code.size() ? code[at + form.size()] : ' ';
      const bool is_name =
          form == name ? !is_letter(before) && !is_letter(after) : !is_lower(after);
      if (!is_name || is_digit(after)) continue;
      lines.push_back(1 + static_cast<std::size_t>(std::count(
                              code.begin(), code.begin() + static_cast<std::ptrdiff_t>(at), '\n')));
    }
  };
  look_for(name);
  look_for(capital);
  return lines;
}

bool is_source(const std::filesystem::path& path) {
  constexpr const char* kEndings[] = {".h", ".cpp", ".cu", ".comp", ".glsl", ".fbs", ".py"};
  return std::ranges::find(kEndings, path.extension()) != std::end(kEndings);
}

// The folder whose sources define a kind; several kinds may share one.
std::string home_of(const std::string& kind) {
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "shared/drafting")) {
    if (!entry.is_directory()) continue;
    for (const auto& file : std::filesystem::directory_iterator(entry)) {
      if (read(file.path()).find(".name = \"" + kind + '"') != std::string::npos) {
        return entry.path().lexically_relative(kRoot).generic_string() + '/';
      }
    }
  }
  return {};
}

TEST(KindNamesTest, KindIsNamedOnlyInItsFolderAndTable) {
  std::map<std::string, std::string> homes;
  for (const DrafterKind* kind : drafter_kinds()) {
    homes[std::string(kind->name)] = home_of(std::string(kind->name));
    EXPECT_NE(homes[std::string(kind->name)], "") << kind->name << " has no folder";
  }
  std::size_t files = 0;
  for (const char* folder : {"client", "kernels", "netsim", "server", "shaders", "shared"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot / folder)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) continue;
      const std::string path = entry.path().lexically_relative(kRoot).generic_string();
      // Published models name their own drafters' tensors and keys.
      if (path == "shared/drafting/kinds.cpp" || path.starts_with("shared/model/")) continue;
      const std::string code = code_of(read(entry.path()), false);
      ++files;
      for (const auto& [name, home] : homes) {
        // Published keys of a kind's successor, such as eagle3, start with the kind's name.
        const std::string stem = home.substr(0, home.size() - 1);
        if (path.starts_with(stem) && !is_letter(path[stem.size()])) continue;
        for (const std::size_t line : lines_with(code, name)) {
          ADD_FAILURE() << path << ":" << line << " names the kind '" << name << "'";
        }
      }
    }
  }
  EXPECT_GT(files, 300u);
}

// Training has one file per kind and one table. Fixtures make the C++ tests' vectors of a kind.
// calibrate.py finds the trees that only one kind has. tune_KIND.py tunes a target together with a
// drafter of the kind.
TEST(KindNamesTest, TrainingNamesKindOnlyInItsFileAndTable) {
  std::size_t kinds = 0;
  for (const DrafterKind* kind : drafter_kinds()) {
    const std::string name(kind->name);
    if (!std::filesystem::exists(kRoot / "train/drafters" / (name + ".py"))) continue;
    ++kinds;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kRoot / "train")) {
      const std::string path = entry.path().lexically_relative(kRoot / "train").generic_string();
      if (entry.path().extension() != ".py" || path == "drafters/" + name + ".py" ||
          path == "drafters/__init__.py" || path == "fixtures.py" || path == "calibrate.py" ||
          path == "tune_" + name + ".py" || path.starts_with("test_") ||
          path.starts_with("fuzz_seeds/")) {
        continue;
      }
      for (const std::size_t line : lines_with(code_of(read(entry.path()), true), name)) {
        ADD_FAILURE() << "train/" << path << ":" << line << " names the kind '" << name << "'";
      }
    }
  }
  EXPECT_GE(kinds, 2u);
}

TEST(KindNamesTest, FindsNamesAndNameParts) {
  using Lines = std::vector<std::size_t>;
  for (const char* code : {"kind == \"moa\"", "moa-tli1", "#include \"drafting/moa/x.h\"", "Moa",
                           "MoaTap", "kMoaKind", "make_moa", "moa_tap"}) {
    EXPECT_EQ(lines_with(code, "moa"), Lines{1}) << code;
  }
  for (const char* code : {"samoa", "moas", "Moabit", "mo a", "moa3", "Moa3Tap"}) {
    EXPECT_EQ(lines_with(code, "moa"), Lines{}) << code;
  }
}

TEST(KindNamesTest, IgnoresComments) {
  EXPECT_EQ(code_of("a // moa\n\"// Moa\" /* moa\n */ b", false), "a \n\"// Moa\" \n b");
  EXPECT_EQ(code_of("a # moa\n\"\"\"moa\n\"\"\"\n'# Moa'", true), "a \n\n\n'# Moa'");
}

}  // namespace
}  // namespace edgedraft
