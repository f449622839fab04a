#include "shared/program/program.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>
#include <streambuf>
#include <string>
#include <vector>

#include "shared/program/options.h"
#include "shared/program/validators.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft {
namespace {

struct Outcome {
  int status;
  std::string out;
  std::string err;
};

struct Options {
  int tokens = 7;
  std::string mode = "slow";
  std::string server = "127.0.0.1:7420";
  double share = 0.5;
  int level = 1;  // level of the failing command
  bool json = false;
  bool levels = false;  // for the printing command
};

// A program with two commands: one prints its options, the other fails.
Outcome run(std::vector<std::string> words, const std::map<std::string, std::string>& env = {}) {
  Options options;
  Options of_fail;
  Program program({"edgedraft-toy", "A toy", "edgedraft-toy 1", "toy.toml"});
  program.write_errors_as([](const Error& e) { return "{\"error\":\"" + e.message + "\"}"; });
  const auto declare = [](CLI::App& app, Options& o) {
    app.add_option("--tokens", o.tokens, "")->check(in_range(1, 64));
    app.add_option("--mode", o.mode, "")->check(CLI::IsMember({"slow", "fast", "off"}));
    app.add_option("--server", o.server, "")->check(is_endpoint(EndpointUse::connect));
    app.add_option("--share", o.share, "")->check(in_range(0.0, 1.0));
    app.add_flag("--json", o.json, "");
  };
  const auto declare_show = [&declare](CLI::App& app, Options& o) {
    declare(app, o);
    // Unrelated to the other command's --level.
    app.add_flag("--level", o.levels, "")->configurable(false);
  };
  program.command("show", "Shows", options, declare_show, [](const Options& o) {
    std::cout << o.tokens << ' ' << o.mode << ' ' << o.server << ' ' << std::setprecision(10)
              << o.share << (o.levels ? " levels" : "");
    return Result<int>(0);
  });
  const auto declare_fail = [&declare](CLI::App& app, Options& o) {
    declare(app, o);
    app.add_option("--level", o.level, "")->check(in_range(1, 3));
  };
  program.command("fail", "Fails", of_fail, declare_fail, [](const Options&) {
    return Result<int>(Error{Errc::untrusted, "who are you?"});
  });
  words.insert(words.begin(), "edgedraft-toy");
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  for (const auto& [name, value] : env) setenv(name.c_str(), value.c_str(), 1);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int status = program.main(static_cast<int>(argv.size()), argv.data());
  for (const auto& [name, value] : env) unsetenv(name.c_str());
  return {status, ::testing::internal::GetCapturedStdout(),
          ::testing::internal::GetCapturedStderr()};
}

void expect_mistake(const Outcome& outcome, const std::string& says) {
  EXPECT_EQ(outcome.status, 2) << says;
  EXPECT_TRUE(contains(outcome.err, says));
}

TEST(ProgramTest, FailsIfOutputCannotBeWritten) {
  struct Full : std::streambuf {
    int overflow(int) override { return traits_type::eof(); }
  } full;
  std::streambuf* const before = std::cout.rdbuf(&full);
  const Outcome shown = run({"show"});
  std::cout.rdbuf(before);
  std::cout.clear();
  EXPECT_EQ(shown.status, exit_code_of(Errc::io));
  EXPECT_TRUE(contains(shown.err, "standard output"));
}

TEST(ProgramTest, UnknownCommandListsCommands) {
  expect_mistake(run({"NONSENSE"}), "unknown command 'NONSENSE'; the commands are show, fail");
  expect_mistake(run({}), "a command is missing; the commands are show, fail");
}

TEST(ProgramTest, HelpDoesNotHideUnknownArguments) {
  expect_mistake(run({"NONSENSE", "--help"}),
                 "unknown command 'NONSENSE'; the commands are show, fail");
  expect_mistake(run({"--help", "NONSENSE"}),
                 "unknown command 'NONSENSE'; the commands are show, fail");
  expect_mistake(run({"show", "NONSENSE", "--help"}), "unexpected argument 'NONSENSE'");
}

TEST(ProgramTest, WarnsOfMisspelledVariable) {
  for (const char* name :
       {"EDGEDRAFT_TOY_TOKEN", "EDGEDRAFT_TOY_TOKENZS", "EDGEDRAFT_TOY_TOKNES"}) {
    const Outcome shown = run({"show"}, {{name, "9"}});
    EXPECT_EQ(shown.status, 0);
    EXPECT_EQ(shown.out, "7 slow 127.0.0.1:7420 0.5");
    EXPECT_TRUE(contains(shown.err, std::string(name) + " is ignored"));
    EXPECT_TRUE(contains(shown.err, "EDGEDRAFT_TOY_TOKENS"));
  }
  // Too far from every option's name, or too short.
  for (const char* name :
       {"EDGEDRAFT_TOY_TOKENS", "EDGEDRAFT_TOY_MODELS", "EDGEDRAFT_TOY_MOD", "EDGEDRAFT_TOY_"}) {
    EXPECT_EQ(run({"show"}, {{name, ""}}).err, "") << name;
  }
}

TEST(ProgramTest, NamesUnknownOption) {
  expect_mistake(run({"--nonsense"}), "unexpected argument '--nonsense'");
  expect_mistake(run({"show", "--nonsense"}), "unexpected argument '--nonsense'");
}

TEST(ProgramTest, HelpAndVersionSucceed) {
  EXPECT_EQ(run({"--help"}).status, 0);
  EXPECT_TRUE(contains(run({"--help"}).out, "fail"));
  EXPECT_TRUE(contains(run({"show", "--tokens", "3", "--help"}).out, "--tokens"));
  EXPECT_EQ(run({"help"}).out, run({"--help"}).out);
  EXPECT_EQ(run({"help", "show"}).out, run({"show", "--help"}).out);
  EXPECT_EQ(run({"help", "NONSENSE"}).err, run({"NONSENSE"}).err);
  EXPECT_EQ(run({"--version"}).out, "edgedraft-toy 1\n");
}

TEST(ProgramTest, CommandLineOverridesEnvironmentFileAndDefault) {
  const test::TemporaryDirectory directory;
  const std::string file =
      directory.write("toy.toml", "tokens = 2\nmode = \"fast\"\nshare = 0.25\n");
  EXPECT_EQ(run({"show"}).out, "7 slow 127.0.0.1:7420 0.5");
  EXPECT_EQ(run({"show", "--config", file}).out, "2 fast 127.0.0.1:7420 0.25");
  const std::map<std::string, std::string> env{{"EDGEDRAFT_TOY_TOKENS", "3"},
                                               {"EDGEDRAFT_TOY_MODE", "off"}};
  EXPECT_EQ(run({"show", "--config", file}, env).out, "3 off 127.0.0.1:7420 0.25");
  EXPECT_EQ(run({"show", "--config", file, "--tokens", "4"}, env).out, "4 off 127.0.0.1:7420 0.25");
}

// Sets an environment variable, or unsets it if `value` is null, for the duration of the test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* had = std::getenv(name)) had_ = had;
    set(value);
  }
  ~Variable() { set(had_ ? had_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) {
    if (value != nullptr) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> had_;
};

// Otherwise the owner of that folder would choose the settings, and find the keys.
TEST(ProgramTest, WorkingDirectoryIsNeverHome) {
  const test::TemporaryDirectory directory;
  const auto before = std::filesystem::current_path();
  std::filesystem::create_directories(directory / ".config/edgedraft");
  directory.write(".config/edgedraft/toy.toml", "tokens = 2\n");
  std::filesystem::current_path(directory.path());
  struct Case {
    const char* home;
    const char* config;
  };
  for (const auto& [home, config] :
       {Case{nullptr, nullptr}, Case{"", nullptr}, Case{".", ""}, Case{"/nowhere", ".config"}}) {
    const Variable home_is("HOME", home);
    const Variable config_is("XDG_CONFIG_HOME", config);
    const Variable state_is("XDG_STATE_HOME", config);
    EXPECT_EQ(run({"show"}).out, "7 slow 127.0.0.1:7420 0.5");
    const auto keys = place_in(state_directory(), "keys");
    EXPECT_TRUE(keys.empty() || keys.is_absolute()) << keys;
  }
  std::filesystem::current_path(before);
  EXPECT_TRUE(place_in({}, "keys").empty());
}

TEST(ProgramTest, ReadsConfigFromAbsoluteXdgFolder) {
  const test::TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "edgedraft");
  directory.write("edgedraft/toy.toml", "tokens = 2\n");
  const Variable config_is("XDG_CONFIG_HOME", directory.path().c_str());
  EXPECT_EQ(run({"show"}).out, "2 slow 127.0.0.1:7420 0.5");
}

TEST(ProgramTest, NonConfigurableOptionsNeedCommandLine) {
  const test::TemporaryDirectory directory;
  const std::string file = directory.write("toy.toml", "level = 2\n");
  const std::string without = run({"show"}).out;
  EXPECT_EQ(run({"show", "--config", file}).out, without);
  EXPECT_EQ(run({"show"}, {{"EDGEDRAFT_TOY_LEVEL", "2"}}).out, without);
  EXPECT_EQ(run({"show", "--level"}).out, without + " levels");
}

TEST(ProgramTest, FileNumbersKeepFullPrecision) {
  const test::TemporaryDirectory directory;
  const std::string file = directory.write("toy.toml", "share = 0.9999999\n");
  EXPECT_EQ(run({"show", "--config", file}).out, run({"show", "--share", "0.9999999"}).out);
  EXPECT_TRUE(contains(run({"show", "--config", file}).out, "0.9999999"));
}

TEST(ProgramTest, IgnoresVariablesOfOtherPrograms) {
  const std::map<std::string, std::string> env{{"EDGEDRAFT_TOKENS", "3"},
                                               {"EDGEDRAFT_TOY_MODE", "off"}};
  EXPECT_EQ(run({"show"}, env).out, "7 off 127.0.0.1:7420 0.5");
}

TEST(ProgramTest, ChecksVariablesAgainstChosenCommandOnly) {
  const std::map<std::string, std::string> env{{"EDGEDRAFT_TOY_LEVEL", "high"}};
  EXPECT_EQ(run({"show"}, env).out, "7 slow 127.0.0.1:7420 0.5");
  expect_mistake(run({"fail"}, env), "give a number from 1 to 3");
}

// Every source refuses the same values, and the message names the valid ones.
TEST(ProgramTest, EverySourceRejectsSameValues) {
  struct Mistake {
    const char* option;
    const char* value;
    const char* says;
  };
  for (const auto& [option, value, says] :
       {Mistake{"tokens", "0", "give a number from 1 to 64"},
        Mistake{"tokens", "65", "give a number from 1 to 64"},
        Mistake{"tokens", "x", "give a number from 1 to 64"},
        Mistake{"mode", "medium", "not in {slow,fast,off}"},
        Mistake{"server", "::1:7420", "is not HOST:PORT"},
        Mistake{"server", "host:0", "is not HOST:PORT"},
        Mistake{"share", "nan", "give a number from 0 to 1"},
        Mistake{"share", "1.01", "give a number from 0 to 1"}}) {
    const std::string name = std::string("--") + option;
    std::string variable = std::string("EDGEDRAFT_TOY_") + option;
    for (char& c : variable) c = static_cast<char>(std::toupper(c));
    const test::TemporaryDirectory directory;
    const std::string file =
        directory.write("wrong.toml", std::string(option) + " = \"" + value + "\"\n");
    const Outcome by_file = run({"show", "--config", file});
    for (const Outcome& outcome :
         {run({"show", name, value}), run({"show"}, {{variable, value}}), by_file}) {
      expect_mistake(outcome, says);
      EXPECT_TRUE(contains(outcome.err, name));
      EXPECT_TRUE(contains(outcome.err, value));
    }
    EXPECT_TRUE(contains(by_file.err, "wrong.toml"));
  }
}

TEST(ProgramTest, FileErrorsNameLine) {
  struct Mistake {
    const char* text;
    const char* says;
  };
  for (const auto& [text, says] :
       {Mistake{"share = 0.5\ntokns = 3\n", "wrong.toml, line 2: unknown option 'tokns'"},
        Mistake{"\n\nserver = host:1\n", "wrong.toml, line 3: "},
        Mistake{"share = 0.5\ntokens = 0\n", "wrong.toml, line 2: --tokens: '0': give"},
        Mistake{"share = 0.5\n[tokens]\n", "wrong.toml, line 2: --tokens: neither a value"},
        Mistake{"share = 0.5\njson = \"maybe\"\n",
                "wrong.toml, line 2: --json: 'maybe': give true or false"}}) {
    const test::TemporaryDirectory directory;
    expect_mistake(run({"show", "--config", directory.write("wrong.toml", text)}), says);
  }
}

TEST(ProgramTest, RejectsDuplicateKeysInEitherSpelling) {
  const test::TemporaryDirectory directory;
  Options options;
  Program program({"edgedraft-toy", "A toy", "edgedraft-toy 1", "toy.toml"});
  const auto declare = [](CLI::App& app, Options& o) {
    app.add_option("--max-tokens", o.tokens, "");
  };
  program.only(options, declare, [](const Options&) { return Result<int>(0); });
  const std::string file = directory.write("wrong.toml", "max_tokens = 2\n\nmax-tokens = 3\n");
  const char* const words[] = {"edgedraft-toy", "--config", file.c_str()};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(program.main(3, words), 2);
  const std::string err = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(err, "wrong.toml, line 3: 'max-tokens' is already given in line 1"));
}

TEST(ProgramTest, RejectsFolderAsOptionsFile) {
  const test::TemporaryDirectory directory;
  expect_mistake(run({"show", "--config", directory.path().string()}),
                 directory.path().string() + ": is a folder");
  expect_mistake(run({"show", "--config", (directory / "none.toml").string()}), "none.toml: ");
}

// The option itself was not given.
TEST(ProgramTest, InvalidVariableValueNamesVariable) {
  expect_mistake(run({"show"}, {{"EDGEDRAFT_TOY_MODE", "medium"}}),
                 "EDGEDRAFT_TOY_MODE (--mode): medium not in {slow,fast,off}");
  expect_mistake(run({"show"}, {{"EDGEDRAFT_TOY_JSON", "maybe"}}),
                 "EDGEDRAFT_TOY_JSON (--json): 'maybe': give true or false");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"show", "--mode", "medium"}, {"show", "--mode=medium"}}) {
    const Outcome by_hand = run(words, {{"EDGEDRAFT_TOY_MODE", "fast"}});
    expect_mistake(by_hand, ": --mode: medium not in {");
    EXPECT_EQ(by_hand.err.find("EDGEDRAFT_TOY_MODE"), std::string::npos) << by_hand.err;
  }
  const Outcome another = run({"show", "--tokens", "0"}, {{"EDGEDRAFT_TOY_MODE", "fast"}});
  EXPECT_EQ(another.err.find("EDGEDRAFT"), std::string::npos) << another.err;
}

TEST(ProgramTest, ReportsFailuresOnceAndAsJsonOnRequest) {
  const Outcome plain = run({"fail"});
  EXPECT_EQ(plain.status, 4);
  EXPECT_EQ(plain.err, "edgedraft-toy: who are you?\n");
  EXPECT_EQ(plain.out, "");
  EXPECT_EQ(run({"fail", "--json"}).out, "{\"error\":\"who are you?\"}\n");
  for (const char* off : {"false", "0", "off"}) {
    EXPECT_EQ(run({"fail"}, {{"EDGEDRAFT_TOY_JSON", off}}).out, "") << off;
  }
  const Outcome mistake = run({"show", "--tokens", "0", "--json"});
  EXPECT_EQ(mistake.status, 2);
  EXPECT_TRUE(contains(mistake.out, "\"error\":\"--tokens"));
}

}  // namespace
}  // namespace edgedraft
