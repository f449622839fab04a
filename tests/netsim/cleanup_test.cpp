#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "netsim/drivers/command.h"
#include "tests/netsim/measured_link.h"
#include "tests/support/expect.h"
#include "tests/support/skip.h"

namespace edgedraft::netsim {
namespace {

using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using test::TemporaryDirectory;
using testing::Process;

std::uint64_t network_of(pid_t pid) {
  struct stat info = {};
  const std::string path = "/proc/" + std::to_string(pid) + "/ns/net";
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool lives(pid_t pid) {
  const std::string stat = first_line("/proc/" + std::to_string(pid) + "/stat");
  return !stat.empty() && stat.find(") Z ") == std::string::npos;
}

std::vector<pid_t> processes() {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) pids.push_back(std::stoi(name));
  }
  return pids;
}

// Child processes and their descendants.
std::vector<pid_t> descendants(pid_t pid) {
  std::vector<pid_t> found;
  const std::string id = std::to_string(pid);
  std::istringstream children(first_line("/proc/" + id + "/task/" + id + "/children"));
  for (pid_t child = 0; children >> child;) {
    found.push_back(child);
    const auto further = descendants(child);
    found.insert(found.end(), further.begin(), further.end());
  }
  return found;
}

// Process of the link that this test created; 0 without one.
pid_t own_link_process() {
  for (const pid_t pid : descendants(getpid())) {
    if (first_line("/proc/" + std::to_string(pid) + "/comm") == "netsim-link") return pid;
  }
  return 0;
}

// `edgedraft-netsim link` with a probe at each end, and the processes it started.
class RunningLink {
 public:
  explicit RunningLink(const std::string& driver, std::vector<std::string> before = {})
      : port_(std::to_string(30'000 + getpid() % 10'000)) {
    auto command = before;
    const std::string probe = NETSIM_PROBE;
    const std::string ping = driver == "proxy" ? "tcp-ping" : "ping";
    command.insert(command.end(),
                   {EDGEDRAFT_NETSIM, "link", "--profile", "lan", "--driver", driver, "--port",
                    port_, "--at-server", probe + " echo " + port_, "--", "sh", "-c",
                    probe + " " + ping + " ${EDGEDRAFT_SERVER%:*} ${EDGEDRAFT_SERVER#*:} 1000000"});
    process_ = std::make_unique<Process>(command, scratch_ / "netsim");
    up_ = process_->wait_for_output("\n", 60s);
    if (!up_) return;
    // The test's own child is the program, as it replaces the command before it.
    for (const pid_t pid : processes()) {
      if (first_line("/proc/" + std::to_string(pid) + "/comm") == "netsim-link" && parent(pid) &&
          is_ours(pid)) {
        link_ = pid;
        program_ = *parent(pid);
      }
    }
    made_ = descendants(program_);
    for (const pid_t pid : made_) {
      if (network_of(pid) != network_of(getpid())) networks_.insert(network_of(pid));
    }
  }

  bool is_up() const { return up_; }
  Process& process() { return *process_; }
  pid_t program() const { return program_; }
  pid_t link() const { return link_; }
  std::size_t made() const { return made_.size(); }
  std::size_t networks() const { return networks_.size(); }

  // Its processes that remain after time to end.
  std::vector<pid_t> left() const {
    std::vector<pid_t> left;
    for (int i = 0; i < 1000; ++i) {
      left.clear();
      for (const pid_t pid : made_) {
        if (lives(pid)) left.push_back(pid);
      }
      for (const pid_t pid : processes()) {
        if (lives(pid) && networks_.contains(network_of(pid))) left.push_back(pid);
      }
      if (left.empty()) break;
      std::this_thread::sleep_for(10ms);
    }
    return left;
  }

 private:
  static std::optional<pid_t> parent(pid_t pid) {
    const std::string stat = first_line("/proc/" + std::to_string(pid) + "/stat");
    const std::size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos || stat.size() < name_end + 4) return std::nullopt;
    return std::stoi(stat.substr(name_end + 4));
  }
  bool is_ours(pid_t pid) const {
    for (std::optional<pid_t> p = pid; p && *p > 1; p = parent(*p)) {
      if (*p == getpid()) return true;
    }
    return false;
  }

  TemporaryDirectory scratch_;
  std::string port_;
  std::unique_ptr<Process> process_;
  bool up_ = false;
  pid_t program_ = 0;
  pid_t link_ = 0;
  std::vector<pid_t> made_;
  std::set<std::uint64_t> networks_;
};

class CleanupTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!MeasuredLink::make(read_network_profile("lan").value(), GetParam(), 1, why_not)) {
      EDGEDRAFT_SKIP_WITHOUT(GetParam(), why_not);
    }
    running_ = std::make_unique<RunningLink>(GetParam());
    ASSERT_TRUE(running_->is_up()) << running_->process().err();
    // The link's process, the server's shell or probe, the device's.
    ASSERT_GE(running_->made(), 3u);
    ASSERT_EQ(running_->networks(), std::string(GetParam()) == "tun" ? 2u : 0u);
  }

  std::unique_ptr<RunningLink> running_;
};

TEST_P(CleanupTest, LeavesNoProcessIfKilled) {
  kill(running_->program(), SIGKILL);
  EXPECT_EQ(running_->left(), std::vector<pid_t>());
}

TEST_P(CleanupTest, CtrlCStopsCleanly) {
  kill(running_->program(), SIGINT);
  EXPECT_EQ(running_->process().wait(), 130);
  EXPECT_TRUE(contains(running_->process().err(), "packets"));
  EXPECT_EQ(running_->left(), std::vector<pid_t>());
}

TEST_P(CleanupTest, ReportsKilledLinkProcess) {
  kill(running_->link(), SIGKILL);
  EXPECT_NE(running_->process().wait(), 0);
  EXPECT_TRUE(contains(running_->process().err(), "emulated link's process has ended"));
  EXPECT_EQ(running_->left(), std::vector<pid_t>());
}

TEST_P(CleanupTest, NextLinkCleansUpAfterKilledRun) {
  kill(running_->program(), SIGSTOP);  // it cannot see its link end
  kill(running_->link(), SIGKILL);
  kill(running_->program(), SIGKILL);
  for (int i = 0; i < 1000 && lives(running_->link()); ++i) std::this_thread::sleep_for(10ms);
  const auto swept = make_link(read_network_profile("lan").value(), "proxy", 1);
  ASSERT_TRUE(swept) << swept.error().message;
  EXPECT_EQ(running_->left(), std::vector<pid_t>());
}

INSTANTIATE_TEST_SUITE_P(Drivers, CleanupTest, ::testing::Values("tun", "proxy"),
                         [](const auto& test) { return std::string(test.param); });

TEST(CleanupTest, DestroyedLinkEndsItsProcesses) {
  std::string why_not;
  auto link = MeasuredLink::make(read_network_profile("lan").value(), "tun", 1, why_not);
  if (!link) EDGEDRAFT_SKIP_WITHOUT("tun", why_not);
  const TemporaryDirectory scratch;
  Process forgotten(link->link().at_device({NETSIM_PROBE, "echo", "7000"}), scratch / "forgotten");
  ASSERT_TRUE(forgotten.wait_for_output("ready")) << forgotten.err();
  link.reset();
  EXPECT_EQ(forgotten.wait(), 128 + SIGKILL);
}

// Its namespaces end with its process unless another process holds them. A new namespace may then
// get the inode of one of them.
TEST(CleanupTest, KilledLinkLeavesUnrelatedProcessesRunning) {
  std::string why_not;
  auto link = MeasuredLink::make(read_network_profile("lan").value(), "tun", 1, why_not);
  if (!link) EDGEDRAFT_SKIP_WITHOUT("tun", why_not);
  std::vector<std::string> apart{"unshare", "--net"};
  if (geteuid() != 0) apart.emplace_back("--user");
  auto command = apart;
  command.emplace_back("true");
  if (const auto able = run_command(command); !able) {
    EDGEDRAFT_SKIP_WITHOUT("tun", able.error().message);
  }
  command = apart;
  command.insert(command.end(), {"sleep", "100"});

  const pid_t process = own_link_process();
  ASSERT_NE(process, 0);
  kill(process, SIGKILL);
  for (int i = 0; i < 1000 && lives(process); ++i) std::this_thread::sleep_for(10ms);
  const TemporaryDirectory scratch;
  std::vector<std::unique_ptr<Process>> sleepers;
  for (int i = 0; i < 5; ++i) {
    // The kernel removes unused namespaces with a delay.
    std::this_thread::sleep_for(50ms);
    const std::string output = "sleeper" + std::to_string(i);
    const auto& sleeper =
        sleepers.emplace_back(std::make_unique<Process>(command, scratch / output));
    for (int j = 0; j < 1000 && network_of(sleeper->id()) == network_of(getpid()); ++j) {
      std::this_thread::sleep_for(1ms);
    }
    ASSERT_NE(network_of(sleeper->id()), network_of(getpid())) << sleeper->err();
  }
  link.reset();
  for (const auto& sleeper : sleepers) EXPECT_TRUE(lives(sleeper->id()));
}

TEST(CleanupTest, ProxyClosesConnectionsOfOldAddresses) {
  const auto link = make_link(read_network_profile("lan").value(), "proxy", 1);
  ASSERT_TRUE(link) << link.error().message;
  const pid_t process = own_link_process();
  ASSERT_NE(process, 0);
  const auto open_files = [&] {
    const std::filesystem::directory_iterator files("/proc/" + std::to_string(process) + "/fd");
    return std::distance(begin(files), end(files));
  };
  boost::asio::io_context io;
  const auto loopback = boost::asio::ip::address_v4::loopback();
  tcp::acceptor listener(io, tcp::endpoint(loopback, 0));
  const std::string target = (*link)->device_target(listener.local_endpoint().port()).value();
  const int port = std::stoi(target.substr(target.rfind(':') + 1));
  const tcp::endpoint relay(loopback, static_cast<std::uint16_t>(port));
  const auto before = open_files();
  for (int round = 0; round < 3; ++round) {
    std::vector<tcp::socket> ends;
    for (int i = 0; i < 10; ++i) {
      ends.emplace_back(io).connect(relay);
      ends.push_back(listener.accept());
    }
    EXPECT_GE(open_files(), before + 20);
    ASSERT_TRUE((*link)->fire({.kind = LinkEvent::Kind::new_address}));
  }
  for (int i = 0; i < 1000 && open_files() > before; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(open_files(), before);
}

// Runs as an unprivileged user, with /dev/net/tun world-writable as distributions ship it.
TEST(UnprivilegedTest, TunWorksInUserNamespace) {
  if (geteuid() != 0) GTEST_SKIP() << "the tests run unprivileged";
  const std::vector<std::string> as_nobody{
      "unshare",
      "--mount",
      "sh",
      "-c",
      "mount -t tmpfs tmpfs /dev/net && mknod /dev/net/tun c 10 200 && chmod 666 /dev/net/tun && "
      "exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"",
      "sh"};
  auto command = as_nobody;
  command.insert(command.end(), {"unshare", "--user", "--net", "cat", EDGEDRAFT_NETSIM});
  if (const auto able = run_command(command); !able)
    EDGEDRAFT_SKIP_WITHOUT("tun", able.error().message);

  RunningLink running("tun", as_nobody);
  ASSERT_TRUE(running.is_up()) << running.process().err();
  EXPECT_EQ(running.networks(), 2u);
  kill(running.program(), SIGKILL);
  EXPECT_EQ(running.left(), std::vector<pid_t>());
}

TEST(UnprivilegedTest, ReportsWhyTunIsUnavailable) {
  if (geteuid() != 0) EDGEDRAFT_SKIP_WITHOUT("root", "only root can hide /dev/net/tun");
  const TemporaryDirectory scratch;
  Process process(
      {"unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /dev/net && exec \"$@\"", "sh",
       EDGEDRAFT_NETSIM, "link", "--driver", "tun", "--profile", "lan", "--", "true"},
      scratch / "netsim");
  const int status = process.wait();
  if (process.err().find("unshare") == 0) EDGEDRAFT_SKIP_WITHOUT("root", process.err());
  EXPECT_NE(status, 0);
  EXPECT_NE(process.err().find("modprobe tun"), std::string::npos) << process.err();
  EXPECT_NE(process.err().find("--driver proxy"), std::string::npos) << process.err();
}

TEST(TcDriverTest, ReportsMissingNetem) {
  const auto link = make_link(read_network_profile("lan").value(), "tc", 1);
  if (link) GTEST_SKIP() << "this kernel has netem";
  EXPECT_EQ(link.error().code, Errc::unsupported) << link.error().message;
  EXPECT_NE(link.error().message.find("--driver"), std::string::npos) << link.error().message;
}

}  // namespace
}  // namespace edgedraft::netsim
