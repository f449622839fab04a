#include "netsim/run/testbed.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace edgedraft::netsim {
namespace {

Error refusal(const std::string& script, std::vector<std::uint32_t> clients,
              std::optional<std::chrono::milliseconds> start_max = {}) {
  const test::TemporaryDirectory directory;
  const auto server = directory / "server";
  std::ofstream(server) << "#!/bin/sh\n" << script;
  std::filesystem::permissions(server, std::filesystem::perms::owner_all);
  Experiment e;
  e.arms = {{.name = "stream", .kind = Arm::Kind::plain}};
  e.clients = std::move(clients);
  const NetworkProfile network{};
  const DeviceProfile device{};
  Testbed::Parts parts{.experiment = e,
                       .network = network,
                       .device = device,
                       .seed = 1,
                       .program = server,
                       .link = make_link(network, "loopback", 1).value(),
                       .work = directory.path(),
                       .cancelled = [] { return false; }};
  if (start_max) parts.server_start_max = *start_max;
  const auto testbed = Testbed::open(std::move(parts));
  EXPECT_FALSE(testbed);
  return testbed ? Error{} : testbed.error();
}

// A large model may still be loading, so the error names the waiting time.
TEST(TestbedTest, TimeoutErrorNamesWaitingTime) {
  const Error error = refusal("exec sleep 60\n", {1}, std::chrono::milliseconds(20));
  EXPECT_EQ(error.code, Errc::link_down);
  EXPECT_NE(error.message.find("it was not ready after 0 s; it printed no error"),
            std::string::npos)
      << error.message;
}

// A full server refuses the prompt or evicts another client's session.
TEST(TestbedTest, ServerAllowsTwiceAsManySessionsAsClients) {
  const Error error = refusal("echo \"$*\" >&2\nexit 1\n", {1, 200});
  EXPECT_NE(error.message.find("--max-sessions 400"), std::string::npos) << error.message;
}

}  // namespace
}  // namespace edgedraft::netsim
