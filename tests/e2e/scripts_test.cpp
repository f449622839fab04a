#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/e2e/process.h"

// What the scripts say where something is wrong.
namespace edgedraft::testing {
namespace {

std::string script(const std::string& name) {
  return std::string(EDGEDRAFT_SCRIPTS) + "/" + name;
}

// scripts/install-packages.sh on a machine that lacks all packages and whose apt-get installs none.
class InstallPackagesTest : public ::testing::Test {
 protected:
  std::string said_after(const std::string& complaint) {
    write_program("dpkg-query", "exit 1");
    write_program("sudo", "exec \"$@\"");
    write_program("apt-get",
                  "[ \"$1\" != install ] || { echo '" + complaint + "' >&2; exit 100; }");
    Process install({script("install-packages.sh"), "build"}, scratch_ / "install", "",
                    {{"PATH", scratch_.path().string() + ":" + std::getenv("PATH")}});
    EXPECT_EQ(install.wait(), 1) << install.err();
    EXPECT_NE(install.err().find(complaint), std::string::npos) << install.err();
    return install.err();
  }

 private:
  void write_program(const std::string& name, const std::string& text) {
    std::ofstream(scratch_ / name) << "#!/bin/sh\n" << text << "\n";
    std::filesystem::permissions(scratch_ / name, std::filesystem::perms::owner_all);
  }

  test::TemporaryDirectory scratch_;
};

TEST_F(InstallPackagesTest, ADeadMirrorIsNotTakenForPackagesInTheWay) {
  EXPECT_EQ(said_after("E: Failed to fetch http://mirror/g.deb").find("make room"),
            std::string::npos);
}

TEST_F(InstallPackagesTest, NothingIsRemovedAndThatIsSaid) {
  EXPECT_NE(said_after("E: Packages need to be removed but remove is disabled.").find("make room"),
            std::string::npos);
}

TEST(SideBySideTest, ANetworkThatThereIsNotIsNamedBeforeAnythingStarts) {
  const test::TemporaryDirectory scratch;
  const auto build = std::filesystem::path(EDGEDRAFT_CLIENT).parent_path().parent_path();
  Process script_run({script("side-by-side.sh"), "--build", build.string(), "--network", "nowhere"},
                     scratch / "script");
  EXPECT_EQ(script_run.wait(), 2);
  EXPECT_EQ(script_run.out(), "");
  const std::string said = script_run.err();
  EXPECT_NE(said.find("nowhere"), std::string::npos) << said;
  EXPECT_EQ(said.find("nowhere"), said.rfind("nowhere")) << said;
}

}  // namespace
}  // namespace edgedraft::testing
