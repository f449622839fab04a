#include "netsim/run/testbed.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>

#include "netsim/run/loopback.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::netsim {
namespace {

// A large model may still be loading, so the error says how long it was waited for.
TEST(TestbedTest, AServerThatIsNotReadyInTimeIsSaidToHaveHadIt) {
  const test::TemporaryDirectory directory;
  const auto server = directory / "server";
  std::ofstream(server) << "#!/bin/sh\nexec sleep 60\n";
  std::filesystem::permissions(server, std::filesystem::perms::owner_all);
  Experiment e;
  e.arms = {{.name = "stream", .kind = Arm::Kind::plain}};
  const NetworkProfile network{};
  const DeviceProfile device{};
  const auto testbed = Testbed::open({.experiment = e,
                                      .network = network,
                                      .device = device,
                                      .seed = 1,
                                      .program = server,
                                      .link = std::make_unique<Loopback>(),
                                      .work = directory.path(),
                                      .cancelled = [] { return false; },
                                      .server_start_max = std::chrono::milliseconds(20)});
  ASSERT_FALSE(testbed);
  EXPECT_EQ(testbed.error().code, Errc::link_down);
  EXPECT_NE(testbed.error().message.find("it was not ready after 0 s; it said nothing"),
            std::string::npos)
      << testbed.error().message;
}

// Where a server has no room for a session, the prompt is refused or another client's session goes.
TEST(TestbedTest, AServerHasRoomForAllClientsAndForTheSessionsOfEarlierAnswers) {
  const test::TemporaryDirectory directory;
  const auto server = directory / "server";
  std::ofstream(server) << "#!/bin/sh\necho \"$*\" >&2\nexit 1\n";
  std::filesystem::permissions(server, std::filesystem::perms::owner_all);
  Experiment e;
  e.arms = {{.name = "stream", .kind = Arm::Kind::plain}};
  e.clients = {1, 200};
  const NetworkProfile network{};
  const DeviceProfile device{};
  const auto testbed = Testbed::open({.experiment = e,
                                      .network = network,
                                      .device = device,
                                      .seed = 1,
                                      .program = server,
                                      .link = std::make_unique<Loopback>(),
                                      .work = directory.path(),
                                      .cancelled = [] { return false; }});
  ASSERT_FALSE(testbed);
  EXPECT_NE(testbed.error().message.find("--max-sessions 400"), std::string::npos)
      << testbed.error().message;
}

}  // namespace
}  // namespace edgedraft::netsim
