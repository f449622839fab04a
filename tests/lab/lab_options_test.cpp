#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "netsim/lab/commands.h"

namespace edgedraft::lab {
namespace {

std::string error_of(std::vector<std::string> arguments) {
  CLI::App app;
  LabRunOptions options;
  options.run.answer.config.drafter.bundles = {"/nowhere.gguf"};
  declare_lab_run(app, options);
  arguments.insert(arguments.end(), {"-p", "x"});
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& e) {
    return e.what();
  }
  return run_in_lab(options).error().message;
}

TEST(LabOptionsTest, RefusesInvalidOrConflictingOptions) {
  for (const auto& [arguments, says] :
       std::initializer_list<std::pair<std::vector<std::string>, const char*>>{
           {{"--offline-after", "0"}, "--offline-after"},
           {{"--offline-after", "5", "--plain"}, "no drafter to continue with"},
           {{"--pace-ms", "-1"}, "--pace-ms"},
           {{"--pace-ms", "20", "--plain"}, "--plain"},
           {{"--pace-beside-target"}, "--pace-profile"},
           {{"--pace-profile", "/nowhere.toml"}, "no such device profile"},
           {{"--pace-profile", "x.toml", "--pace-ms", "3"}, "exclude each other"},
           {{"--oracle", "/nowhere.json"}, "/nowhere.json"},
           {{"--oracle", "x.json", "--plain"}, "--oracle and --plain exclude each other"},
           {{"--oracle-acceptance", "0.5"}, "need --oracle"},
           {{"--oracle-seed", "0"}, "need --oracle"},
           {{"--oracle", "x.json", "--oracle-acceptance", "1.5"}, "from 0 to 1"},
           {{"--offline-after", "5", "--pace-ms", "3"}, "/nowhere.gguf"}}) {
    EXPECT_NE(error_of(arguments).find(says), std::string::npos) << error_of(arguments);
  }
}

}  // namespace
}  // namespace edgedraft::lab
