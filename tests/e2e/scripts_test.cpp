#include <gtest/gtest.h>
#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/e2e/process.h"

namespace edgedraft::testing {
namespace {

std::string script(const std::string& name) {
  return std::string(EDGEDRAFT_SCRIPTS) + "/" + name;
}

// Runs scripts/install-packages.sh on a machine that lacks all packages, with an apt-get that
// installs none.
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

TEST_F(InstallPackagesTest, DoesNotMistakeDeadMirrorForConflict) {
  EXPECT_EQ(said_after("E: Failed to fetch http://mirror/g.deb").find("make room"),
            std::string::npos);
}

TEST_F(InstallPackagesTest, ReportsConflictInsteadOfRemovingPackages) {
  EXPECT_NE(said_after("E: Packages need to be removed but remove is disabled.").find("make room"),
            std::string::npos);
}

// Another program's page would answer at that address.
TEST(DemoTest, ReportsTakenPortBeforePage) {
  const test::TemporaryDirectory scratch;
  boost::asio::io_context io;
  const boost::asio::ip::tcp::acceptor taken(io, {boost::asio::ip::address_v4::loopback(), 0});
  const auto build = std::filesystem::path(EDGEDRAFT_CLIENT).parent_path().parent_path();
  const auto serve = [&](const std::string& port) {
    return Process({script("demo.sh"), "--build", build.string(), "--serve", "--port", port},
                   scratch / "demo", "", {{"XDG_DATA_HOME", scratch.path().string()}});
  };
  const std::string port = std::to_string(taken.local_endpoint().port());
  Process refused = serve(port);
  EXPECT_NE(refused.wait(), 0);
  EXPECT_NE(refused.err().find(port), std::string::npos) << refused.err();
  EXPECT_EQ(refused.out().find("The page"), std::string::npos) << refused.out();
  Process served = serve("0");
  EXPECT_TRUE(served.wait_for_output("The page: http://127.0.0.1:")) << served.err();
  served.signal(SIGTERM);
}

TEST(ScriptsTest, NameMistypedOption) {
  const test::TemporaryDirectory scratch;
  for (const char* name : {"demo.sh", "side-by-side.sh"}) {
    Process mistyped({script(name), "--biuld", "x"}, scratch / name);
    EXPECT_EQ(mistyped.wait(), 2);
    EXPECT_NE(mistyped.err().find("unknown option '--biuld'"), std::string::npos) << mistyped.err();
  }
}

TEST(SideBySideTest, NamesUnknownNetworkBeforeStarting) {
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
