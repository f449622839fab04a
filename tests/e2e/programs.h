#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/process.h"

// Programs that run to their end, and their output.
namespace edgedraft::testing {

using Options = std::vector<std::string>;

// Nothing listens there.
inline const Options kNoServer{"--server", "127.0.0.1:1", "--pin",
                               "sha256:" + std::string(64, '0')};

inline Options with_server(const Server& server) {
  return {"--server", server.address(), "--pin", server.pin()};
}

// The JSON output of a program that must succeed.
inline nlohmann::json output_of(Process& program) {
  EXPECT_EQ(program.wait(), 0) << program.err();
  return nlohmann::json::parse(program.out());
}

inline std::vector<nlohmann::json> objects_in(const std::string& lines_of_json) {
  std::vector<nlohmann::json> objects;
  std::istringstream lines(lines_of_json);
  for (std::string line; std::getline(lines, line);) {
    objects.push_back(nlohmann::json::parse(line));
  }
  return objects;
}

// The answer of `edgedraft run` with a bundle's file and these further options.
inline nlohmann::json answer_from(const Server& server, const test::TemporaryDirectory& scratch,
                                  const std::string& bundle, const Options& options) {
  const Options all = joined(joined(options, with_server(server)), {"--bundle", bundle});
  return output_of(*start_client(scratch, "client", all));
}

// The messages of edgedraft-server, or of the lab's, which must exit with `status`.
inline std::string refusal_of_server(const test::TemporaryDirectory& scratch,
                                     const Options& options, int status = 2,
                                     const Options& program = {EDGEDRAFT_SERVER}) {
  Process server(joined(joined(program, {"--state", scratch / "state"}), options),
                 scratch / "refused-server");
  EXPECT_EQ(server.wait(), status) << ::testing::PrintToString(options);
  EXPECT_EQ(server.out(), "") << ::testing::PrintToString(options);
  return server.err();
}

// The file of an index of `text` in the demo's tokens.
inline std::string index_of(const test::TemporaryDirectory& scratch, const std::string& name,
                            const std::string& text, const Options& options = {"--public"}) {
  const std::string index = scratch / (name + ".index");
  Process make(joined({EDGEDRAFT_CLIENT, "index", "--model", demo_model("target"),
                       scratch.write(name + ".txt", text), "-o", index},
                      options),
               scratch / ("index-" + name));
  EXPECT_EQ(make.wait(), 0) << make.err();
  return index;
}

// What `edgedraft devices` reports for a shipped drafter.
inline nlohmann::json devices_for(const test::TemporaryDirectory& scratch,
                                  const std::string& bundle) {
  Process devices({EDGEDRAFT_CLIENT, "devices", "--bundle", demo_model(bundle), "--json"},
                  scratch / "devices");
  return output_of(devices)["devices"];
}

// Memory of a shipped drafter on the CPU, in bytes.
struct DrafterMemory {
  std::uint64_t shared = 0;  // among all conversations
  std::uint64_t conversation = 0;
};

inline DrafterMemory drafter_memory(const test::TemporaryDirectory& scratch,
                                    const std::string& bundle) {
  const auto cpu = devices_for(scratch, bundle)[0];
  return {.shared =
              cpu["weights_bytes"].get<std::uint64_t>() + cpu["working_bytes"].get<std::uint64_t>(),
          .conversation = cpu["conversation_bytes"]};
}

}  // namespace edgedraft::testing
