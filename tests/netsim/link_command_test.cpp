#include <gtest/gtest.h>
#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/e2e/process.h"
#include "tests/support/expect.h"

namespace edgedraft::netsim {
namespace {

using boost::asio::ip::tcp;
using test::TemporaryDirectory;
using testing::Process;

struct Outcome {
  int status;
  std::string out;
  std::string err;
};

Outcome run(std::vector<std::string> options) {
  const TemporaryDirectory scratch;
  options.insert(options.begin(), {EDGEDRAFT_NETSIM, "link"});
  Process process(options, scratch / "netsim");
  const int status = process.wait();
  return {status, process.out(), process.err()};
}

TEST(LinkCommandTest, ScheduleIsDeterministicPerSeed) {
  const std::vector<std::string> seven{"--profile", "paper-4g", "--simulate",
                                       "2000",      "--seed",   "7"};
  const Outcome first = run(seven);
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(std::count(first.out.begin(), first.out.end(), '\n'), 4001);
  EXPECT_EQ(first.out, run(seven).out);
  auto eight = seven;
  eight.back() = "8";
  EXPECT_NE(first.out, run(eight).out);
}

TEST(LinkCommandTest, ScheduleShowsScriptedEvents) {
  const TemporaryDirectory scratch;
  std::ofstream(scratch / "t.toml")
      << "both = { rate_mbit = 9.6, path_ms = 3 }\n[[event]]\nat_s = 0.002\naction = "
         "\"down\"\nfor_s = 0.002\n";
  EXPECT_EQ(run({"--profile", (scratch / "t.toml").string(), "--simulate", "5"}).out,
            "direction,packet,sent_ns,fate,arrives_ns\n"
            "up,0,0,delivered,4000000\ndown,0,0,delivered,4000000\n"
            "up,1,1000000,delivered,5000000\ndown,1,1000000,delivered,5000000\n"
            "up,2,2000000,link_down,\ndown,2,2000000,link_down,\n"
            "up,3,3000000,link_down,\ndown,3,3000000,link_down,\n"
            "up,4,4000000,delivered,8000000\ndown,4,4000000,delivered,8000000\n");
}

TEST(LinkCommandTest, UnknownCommandFailsDespiteHelp) {
  const TemporaryDirectory scratch;
  Process process({EDGEDRAFT_NETSIM, "NONSENSE", "--help"}, scratch / "netsim");
  EXPECT_EQ(process.wait(), 2);
  EXPECT_TRUE(contains(process.err(),
                       "unknown command 'NONSENSE'; the commands are link, run, report, probe"));
}

TEST(LinkCommandTest, ListsProfilesWithTheirSources) {
  const Outcome listed = run({"--list"});
  EXPECT_EQ(listed.status, 0);
  EXPECT_TRUE(contains(listed.out, "train-tunnel"));
  EXPECT_TRUE(contains(listed.out, "mahimahi"));
}

TEST(LinkCommandTest, DryRunPrintsValidShellScript) {
  const Outcome dry = run({"--driver", "tc", "--profile", "4g-busy", "--dry-run"});
  ASSERT_EQ(dry.status, 0) << dry.err;
  EXPECT_EQ(dry.out.substr(0, 10), "#!/bin/sh\n");
  const TemporaryDirectory scratch;
  Process shell({"/bin/sh", "-n"}, scratch / "sh", dry.out);
  EXPECT_EQ(shell.wait(), 0) << shell.err();
}

// Runs a profile's script with programs that only record their arguments.
TEST(LinkCommandTest, DryRunScriptFiresProfileEvents) {
  const TemporaryDirectory scratch;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(scratch / name) << text;
    std::filesystem::permissions(scratch / name, std::filesystem::perms::owner_all);
  };
  write("events.toml",
        "repeat_s = 1\n[both]\nrate_mbit = 10\npath_ms = 5\n"
        "[[event]]\nat_s = 0.1\naction = \"down\"\nfor_s = 0.2\n"
        "[[event]]\nat_s = 0.5\naction = \"new-address\"\n"
        "[[event]]\nat_s = 0.6\naction = \"down\"\n"
        "[[event]]\nat_s = 0.7\naction = \"up\"\n");
  const Outcome dry =
      run({"--driver", "tc", "--profile", (scratch / "events.toml").string(), "--dry-run"});
  ASSERT_EQ(dry.status, 0) << dry.err;
  write("script", dry.out);
  write("unshare", "#!/bin/sh\nshift\nexec \"$@\"\n");
  write("readlink", "#!/bin/sh\necho \"$1\"\n");
  write("nsenter", "#!/bin/sh\nshift\necho \"$*\" >> " + (scratch / "calls").string() + "\n");
  Process script(
      {(scratch / "script").string()}, scratch / "out", "",
      {{"PATH", scratch.path().string() + ":/usr/bin:/bin"}, {"TMPDIR", scratch.path().string()}});
  const auto events = [&] {
    std::vector<std::string> found;
    std::ifstream calls(scratch / "calls");
    for (std::string line; std::getline(calls, line);) {
      if (line.find("tc qdisc change") == 0) {
        found.emplace_back(line.find("loss 100%") == std::string::npos ? "up" : "down");
      } else if (line.find("ip address delete") == 0) {
        found.push_back(line.substr(0, line.find('/')));
      }
    }
    return found;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (events().size() < 14 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  script.signal(SIGTERM);
  EXPECT_EQ(script.wait(), 130) << script.err();
  auto fired = events();
  ASSERT_GE(fired.size(), 14u) << script.err();
  fired.resize(14);
  EXPECT_EQ(fired, (std::vector<std::string>{
                       "down", "down", "up", "up", "ip address delete 198.18.0.2", "down", "down",
                       "up", "up", "down", "down", "up", "up", "ip address delete 198.18.0.3"}));
}

TEST(LinkCommandTest, DeviceCommandReceivesArgumentsUnchanged) {
  const std::vector<std::string> link{"--driver", "proxy", "--profile", "lan", "--"};
  const auto outcome = [&](std::vector<std::string> command) {
    command.insert(command.begin(), link.begin(), link.end());
    return run(command);
  };
  const Outcome compared = outcome({"sh", "-c", "[ 1 = 1 ]"});
  EXPECT_EQ(compared.status, 0) << compared.err;
  const Outcome printed = outcome(
      {"printf", "%s\\n", "[\"a\",\"b\"]", "[]", "", "{}", "--seed", "--", "link", "a,b", "x"});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_EQ(printed.out, "[\"a\",\"b\"]\n[]\n\n{}\n--seed\n--\nlink\na,b\nx\n");
  EXPECT_EQ(outcome({"false"}).status, 1);
}

class TakenPort {
 public:
  std::string port() const { return std::to_string(listener_.local_endpoint().port()); }

 private:
  boost::asio::io_context io_;
  tcp::acceptor listener_{io_, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)};
};

TEST(LinkCommandTest, RefusesPortInUse) {
  const TakenPort taken;
  const Outcome refused = run({"--driver", "proxy", "--profile", "lan", "--port", taken.port(),
                               "--at-server", "sleep 60", "--", "echo", "served"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(contains(refused.err, "port " + taken.port() + " is already in use"));
  EXPECT_EQ(refused.out, "");
}

TEST(LinkCommandTest, ServerFailureBeforeListeningExitsWithLinkError) {
  const std::string port = TakenPort().port();  // free again
  const Outcome failed = run({"--driver", "proxy", "--profile", "lan", "--port", port,
                              "--at-server", "exit 7", "--", "echo", "served"});
  EXPECT_EQ(failed.status, 3);
  EXPECT_TRUE(contains(failed.err, "exited with status 7"));
  EXPECT_EQ(failed.out, "");
}

TEST(LinkCommandTest, ServerFailureEndsLinkAndIsReported) {
  const std::string port = TakenPort().port();  // free again
  const std::string probe = EDGEDRAFT_NETSIM " probe --listen \"$EDGEDRAFT_SERVER_LISTEN\" & ";
  const Outcome failed =
      run({"--driver", "proxy", "--profile", "lan", "--port", port, "--at-server",
           probe + "sleep 2; kill $!; exit 7", "--", "sleep", "60"});
  EXPECT_EQ(failed.status, 3);
  EXPECT_TRUE(contains(failed.err, "exited with status 7"));
}

TEST(LinkCommandTest, ExplainsUsageErrors) {
  const Outcome unknown = run({"--profile", "6g"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_TRUE(contains(unknown.err, "paper-5g"));
  EXPECT_EQ(run({"--driver", "ns3"}).status, 2);
  const Outcome lonely = run({"--at-server", "true"});
  EXPECT_EQ(lonely.status, 2);
  EXPECT_TRUE(contains(lonely.err, "after `--`"));
}

TEST(LinkCommandTest, InvalidNumbersNameAcceptedRange) {
  for (const auto& [option, value, says] :
       {std::tuple{"--port", "70000", "--port: '70000': give a number from 1 to 65535"},
        std::tuple{"--seed", "abc", "--seed: 'abc': give a number from 0"}}) {
    const Outcome refused = run({"--list", option, value});
    EXPECT_EQ(refused.status, 2) << option;
    EXPECT_TRUE(contains(refused.err, says));
  }
}

}  // namespace
}  // namespace edgedraft::netsim
