// The table of docs/security.md against the tests, and what no message may carry.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace edgedraft::test {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = EDGEDRAFT_SOURCE_DIR;

// Every attack that the page must map to a test.
constexpr const char* kAttacks[] = {
    "unchecked offset or length",
    "unknown enum value",
    "code over the wire",
    "use after free in a session's life",
    "negative or huge integer in the API",
    "state restore",
    "model file",
    "template",
    "resource exhaustion",
    "slow or half-open peer",
    "sampler option with speculation mode",
    "foreign tensors, hashes and ids",
    "timing of secrets",
    "forgotten endpoint",
    "exposed by default",
    "kill -9 during verification",
    "SIGSTOP for 30 s",
    "partition in one direction",
    "RST",
    "FIN inside a frame",
    "writer of single bytes",
    "reader that never reads",
    "stalled handshake",
    "10,000 connections",
    "resume with another tenant's session id",
    "resume twice at once",
    "round replayed, skipped or decreasing",
    "tree with a cycle or forward parent",
    "tree of 2^31 nodes",
    "duplicate siblings",
    "end token inside a tree",
    "token id beyond the vocabulary",
    "rollback before the confirmed prefix",
    "gzip bomb",
    "truncated gzip",
    "data after gzip",
    "scale NaN, infinite, 0 or denormal",
    "certificate expires during a session",
    "clock jump",
    "full disk for logs",
    "GPU out of memory as the KV cache grows",
    "24 hours without growth",
    "1,000 clients reconnect at once",
};

// The names of all tests in the sources: "Suite.Name".
std::set<std::string> names_of_tests() {
  static const std::regex cpp(R"(\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\))");
  static const std::regex cmake(R"(add_test\(NAME ([A-Za-z0-9_.]+))");
  static const std::regex python(R"(class (\w+)\(|def (test_\w+)\()");
  std::set<std::string> names;
  const auto match_all = [](const std::string& text, const std::regex& pattern, auto take) {
    for (std::sregex_iterator found(text.begin(), text.end(), pattern), end; found != end; ++found)
      take(*found);
  };
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    const fs::path& path = entry.path();
    if (path.extension() == ".cpp" || path.extension() == ".h") {
      match_all(file_text(path), cpp,
                [&](const std::smatch& m) { names.insert(m[1].str() + '.' + m[2].str()); });
    } else if (path.filename() == "CMakeLists.txt") {
      match_all(file_text(path), cmake, [&](const std::smatch& m) { names.insert(m[1]); });
    }
  }
  // ctest runs each fuzz target over its seeds.
  for (const auto& entry : fs::directory_iterator(kRoot / "tests/fuzz/corpus")) {
    names.insert("corpus_" + entry.path().filename().string());
  }
  for (const auto& entry : fs::directory_iterator(kRoot / "train")) {
    if (entry.path().extension() != ".py") continue;
    std::string suite;
    match_all(file_text(entry.path()), python, [&](const std::smatch& m) {
      if (m[1].matched) suite = m[1];
      if (m[2].matched) names.insert(suite + '.' + m[2].str());
    });
  }
  return names;
}

struct Row {
  std::string title;
  std::vector<std::string> tests;  // in backquotes in the last column
};

std::vector<Row> rows_of(const std::string& page) {
  static const std::regex quoted("`([^`]+)`");
  std::vector<Row> rows;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ")) continue;
    const std::size_t end = line.find(" |");
    const std::size_t last = line.rfind("| ", line.size() - 3);
    if (end == line.npos || last == line.npos) continue;
    Row row{.title = line.substr(2, end - 2), .tests = {}};
    const std::string tests = line.substr(last);
    for (std::sregex_iterator found(tests.begin(), tests.end(), quoted), none; found != none;
         ++found) {
      row.tests.push_back((*found)[1]);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Columns of the page that are headed "shown by" hold tests only.
TEST(SecurityPageTest, EveryNamedTestExists) {
  const std::set<std::string> known = names_of_tests();
  ASSERT_GT(known.size(), 1000u);
  std::size_t named = 0;
  for (const Row& row : rows_of(file_text(kRoot / "docs/security.md"))) {
    for (const std::string& test : row.tests) {
      EXPECT_TRUE(known.contains(test)) << row.title << ": " << test;
      ++named;
    }
  }
  EXPECT_GT(named, std::size(kAttacks));
}

TEST(SecurityPageTest, EveryAttackHasATest) {
  const std::vector<Row> rows = rows_of(file_text(kRoot / "docs/security.md"));
  for (const char* const attack : kAttacks) {
    const auto row = std::ranges::find(rows, attack, &Row::title);
    if (row == rows.end()) {
      ADD_FAILURE() << "docs/security.md has no row '" << attack << "'";
    } else {
      EXPECT_FALSE(row->tests.empty()) << attack << " names no test";
    }
  }
}

TEST(SecurityPageTest, ReadsTestsOfLastColumnOnly) {
  const auto rows = rows_of("| a | `x` | `S.One`, `S.Two` |\n|---|---|---|\ntext\n| b | none |\n");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].title, "a");
  EXPECT_EQ(rows[0].tests, (std::vector<std::string>{"S.One", "S.Two"}));
  EXPECT_TRUE(rows[1].tests.empty());
}

// The fields of a table or struct of the schema, as "name: type".
std::set<std::string> fields_of(const std::string& message) {
  const std::string schema = file_text(kRoot / "shared/protocol/messages.fbs");
  const std::regex body("\\b(?:table|struct) " + message + " \\{([^}]*)\\}");
  std::smatch found;
  std::set<std::string> fields;
  if (!std::regex_search(schema, found, body)) {
    ADD_FAILURE() << "no message " << message;
    return fields;
  }
  static const std::regex field(R"((\w+): *([\[\]\w]+);)");
  const std::string text = found[1];
  for (std::sregex_iterator one(text.begin(), text.end(), field), end; one != end; ++one) {
    fields.insert((*one)[1].str() + ": " + (*one)[2].str());
  }
  return fields;
}

// Neither activations nor KV rows nor compressed data travel to the server: byte vectors are ids
// and hashes, and the only vector of floats are biases.
TEST(SecuritySchemaTest, ClientsSendNeitherActivationsNorState) {
  const std::set<std::string> allowed = {"session: [ubyte]", "verified_hash: [ubyte]",
                                         "target: [ubyte]",  "tokenizer: [ubyte]",
                                         "drafter: [ubyte]", "biases: [float]"};
  for (const char* const message :
       {"Hello", "Prefill", "Resume", "Hints", "Ping", "Pong", "Cancel", "Close", "Error"}) {
    for (const std::string& field : fields_of(message)) {
      if (field.find("[ubyte]") == field.npos && field.find("[float]") == field.npos) continue;
      EXPECT_TRUE(allowed.contains(field)) << message << '.' << field;
    }
    EXPECT_FALSE(fields_of(message).contains("codec: ubyte")) << message;
  }
}

// Numbers, texts and vectors of them: no pointer, remote handle, operation or nested message.
TEST(SecuritySchemaTest, MessagesAreDataWithoutPointersOrCode) {
  const std::set<std::string> types = {"bool",    "ubyte",    "ushort",   "uint",      "ulong",
                                       "float",   "string",   "[ubyte]",  "[uint]",    "[ushort]",
                                       "[float]", "[string]", "Sampling", "[PassTime]"};
  for (const char* const message :
       {"Hello", "Welcome", "Sampling", "PassTime", "Prefill", "Resume", "Activations", "Verdict",
        "Hints", "Ping", "Pong", "Cancel", "Close", "Error"}) {
    for (const std::string& field : fields_of(message)) {
      EXPECT_TRUE(types.contains(field.substr(field.find(": ") + 2))) << message << '.' << field;
    }
  }
}

}  // namespace
}  // namespace edgedraft::test
