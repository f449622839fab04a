#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/walls/folder_table.h"
#include "tests/walls/source_tree.h"

namespace edgedraft::test {
namespace {

constexpr const char* kFolders[] = {"client",  "kernels", "netsim", "server",
                                    "shaders", "shared",  "tests"};

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

const SourceTree& project() {
  static const SourceTree tree =
      read_sources(EDGEDRAFT_SOURCE_DIR, {std::begin(kFolders), std::end(kFolders)});
  return tree;
}

FolderTable table() {
  auto parsed = FolderTable::parse(
      text_of(std::filesystem::path(EDGEDRAFT_SOURCE_DIR) / "docs/architecture.md"));
  EXPECT_TRUE(parsed) << parsed.error().message;
  return std::move(parsed.value());
}

bool is_test(const std::string& path) {
  return path.starts_with("tests/");
}

TEST(WallsTest, EveryFolderHasItsLine) {
  const FolderTable folders = table();
  for (const auto& [path, source] : project()) {
    if (is_test(path)) continue;
    EXPECT_NE(folders.folder_of(path), "") << path;
  }
}

TEST(WallsTest, FoldersIncludeOnlyWhatTheTableAllows) {
  const FolderTable folders = table();
  for (const auto& [path, source] : project()) {
    if (is_test(path)) continue;
    for (const std::string& name : source.quoted) {
      if (!project().contains(name)) continue;
      EXPECT_TRUE(folders.allows(folders.folder_of(path), folders.folder_of(name)))
          << path << " includes " << name;
    }
  }
}

TEST(WallsTest, IncludePathsBeginAtTheRoot) {
  // Made while building.
  const auto is_generated = [](const std::string& name) {
    return name.ends_with("_generated.h") || name.ends_with(".spv.inc") ||
           name == "netsim/run/commit.h";
  };
  for (const auto& [path, source] : project()) {
    // Stands for the toolkit's folder.
    if (path.starts_with("tests/cuda_host/include/")) continue;
    for (const std::string& name : source.quoted) {
      EXPECT_TRUE(project().contains(name) || is_generated(name)) << path << " includes " << name;
    }
  }
}

// Libraries that only some folders may know: what is not named here may be used anywhere.
TEST(WallsTest, LibrariesStayWhereTheyBelong) {
  struct Library {
    const char* prefix;
    std::vector<std::string> folders;
  };
  const Library libraries[] = {
      {"boost/asio/ip/address",
       {"client/serve", "shared/net", "shared/program"}},  // a value, no I/O
      {"boost/asio", {"client/serve", "shared/net", "server/metrics", "netsim/run"}},
      {"openssl/", {"shared/base", "shared/net", "shared/protocol", "server/sessions"}},
      {"CLI/", {"shared/program", "client/commands", "server/program/options", "netsim"}},
      {"toml++/", {"shared/program"}},
      {"sentencepiece", {"shared/model"}},
      {"pcre2.h", {"shared/model"}},
      {"utf8proc.h", {"client/privacy", "shared/model"}},
      {"sqlite3.h", {"client/serve"}},
      {"flatbuffers/", {"shared/protocol"}},
      {"messages_generated.h", {"shared/protocol"}},
      {"vulkan/", {"client/vulkan"}},
      {"cublas", {"server/cuda", "kernels/cuda"}},
      {"cuda_", {"server/cuda", "kernels/cuda"}},
  };
  for (const auto& [path, source] : project()) {
    if (is_test(path)) continue;
    for (const std::string& name : source.includes) {
      for (const Library& library : libraries) {
        if (!name.starts_with(library.prefix)) continue;
        EXPECT_TRUE(std::ranges::any_of(
            library.folders, [&](const std::string& folder) { return path.starts_with(folder); }))
            << path << " includes " << name;
        break;  // the longest prefix stands first
      }
    }
  }
}

// What comes in tells the time: a protocol with a clock could not be tested without waiting.
TEST(WallsTest, TheProtocolReadsNoClock) {
  for (const auto& [path, source] : project()) {
    if (path.starts_with("shared/protocol/")) {
      EXPECT_EQ(source.text.find("::now()"), std::string::npos) << path;
    }
  }
}

TEST(WallsTest, FilesIncludeTheirOwnHeaderFirst) {
  for (const auto& [path, source] : project()) {
    const std::string header = path.substr(0, path.rfind('.')) + ".h";
    if (is_header(path) || !project().contains(header)) continue;
    ASSERT_FALSE(source.includes.empty()) << path;
    EXPECT_EQ(source.includes.front(), header) << path;
  }
}

TEST(WallsTest, HeadersIncludeWhatTheyUse) {
  for (const auto& [path, names] : undeclared_names(project())) {
    for (const std::string& name : names) ADD_FAILURE() << path << " uses " << name;
  }
}

TEST(FolderTableTest, ReadsItsBlock) {
  const auto folders = FolderTable::parse(
      "Prose.\n```folders\na:\na/b:  a\nc: a/b\nc/main.cpp: c\n```\nmore: prose\n");
  ASSERT_TRUE(folders) << folders.error().message;
  EXPECT_EQ(folders->folder_of("a/x.h"), "a");
  EXPECT_EQ(folders->folder_of("a/b/d/x.h"), "a/b");
  EXPECT_EQ(folders->folder_of("c/main.cpp"), "c/main.cpp");
  EXPECT_EQ(folders->folder_of("d/x.h"), "");
  EXPECT_TRUE(folders->allows("c/main.cpp", "a"));
  EXPECT_TRUE(folders->allows("a", "a"));
  EXPECT_FALSE(folders->allows("a", "a/b"));
  EXPECT_FALSE(folders->allows("c", "c/main.cpp"));
}

TEST(FolderTableTest, AFileMayBeIncludedWithoutItsFolder) {
  const auto folders = FolderTable::parse("```folders\na/list.h:\na: a/list.h\nb: a/list.h\n```");
  ASSERT_TRUE(folders) << folders.error().message;
  EXPECT_TRUE(folders->allows(folders->folder_of("b/x.cpp"), folders->folder_of("a/list.h")));
  EXPECT_FALSE(folders->allows(folders->folder_of("b/x.cpp"), folders->folder_of("a/x.h")));
  EXPECT_FALSE(folders->allows(folders->folder_of("a/list.h"), folders->folder_of("a/x.h")));
}

TEST(FolderTableTest, RefusesCirclesAndUnknownFolders) {
  const auto error_of = [](const std::string& lines) {
    const auto folders = FolderTable::parse("```folders\n" + lines + "\n```");
    return folders ? std::string() : folders.error().message;
  };
  EXPECT_EQ(error_of("a: b\nb: c\nc: a"), "a circle through a");
  EXPECT_EQ(error_of("a: b"), "no line for b");
  EXPECT_EQ(error_of("a:\na:"), "two lines for a");
  EXPECT_FALSE(FolderTable::parse("no block"));
}

TEST(SourceTreeTest, FindsNamesThatNoIncludeDeclares) {
  SourceTree tree;
  tree["a.h"] = parse_source("#include <string>\nstruct Apple {\n};\n");
  tree["b.h"] = parse_source("#include \"a.h\"\n");
  tree["sound.h"] =
      parse_source("#include \"b.h\"\nstruct Pear;\nstd::string f(Apple, Pear*); // std::vector\n");
  tree["lacking.h"] = parse_source(
      "#include <vector>\n/* #include \"a.h\" */\nstd::vector<std::string> f(Apple);\n"
      "int g(N::Apple, const char* = \"Pear\");\n");
  tree["pear.h"] = parse_source("class Pear final : public Fruit {\n};\n");
  const auto found = undeclared_names(tree);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.begin()->first, "lacking.h");
  EXPECT_EQ(found.begin()->second,
            (std::vector<std::string>{"std::string (<string>)", "Apple (a.h)"}));
}

}  // namespace
}  // namespace edgedraft::test
