#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/process.h"

namespace edgedraft::testing {

// Memory of a shipped drafter on the CPU as `edgedraft devices` reports it, in bytes.
struct DrafterMemory {
  std::uint64_t shared = 0;  // among all conversations
  std::uint64_t conversation = 0;
};

inline DrafterMemory drafter_memory(const test::TemporaryDirectory& scratch,
                                    const std::string& bundle) {
  Process devices({EDGEDRAFT_CLIENT, "devices", "--bundle", demo_model(bundle), "--json"},
                  scratch / "devices");
  EXPECT_EQ(devices.wait(), 0) << devices.err();
  const auto cpu = nlohmann::json::parse(devices.out())["devices"][0];
  return {.shared =
              cpu["weights_bytes"].get<std::uint64_t>() + cpu["working_bytes"].get<std::uint64_t>(),
          .conversation = cpu["conversation_bytes"]};
}

}  // namespace edgedraft::testing
