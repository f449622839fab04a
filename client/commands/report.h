#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/commands/client_options.h"
#include "client/engine/engine.h"
#include "shared/base/clock.h"
#include "shared/base/sha256.h"

namespace edgedraft::client {

// Configuration of an answer, for comparing answers.
struct ReportedConfig {
  const ClientSettings& config;  // must outlive this
  std::string drafter;           // kind; "none" for plain decoding
  std::string bundle;
  std::string drafter_reason;   // why this drafter; empty: there was only one
  std::string tap;              // activations sent to the drafter; empty: none
  std::string device = "none";  // drafting device: "cpu", "vulkan:0"; "none" for plain decoding
  std::string device_name;      // name from its vendor
  std::string device_reason;    // why this device
  std::optional<Digest> target_fingerprint;
  std::optional<Digest> tokenizer_fingerprint;
  std::optional<Digest> drafter_fingerprint;
};

// An answer and its cost.
struct RunReport : GenerationOutcome {
  std::string text;
  // Energy of the machine's processors during the answer, for all programs; empty if not available.
  std::optional<double> energy_joules{};
  // From program start to the first token of the first answer; empty for later ones.
  std::optional<Duration> start_to_first_token{};
  // Memory held by drafters, its peak, and the size of the mapped files, which the system may
  // evict.
  struct Memory {
    std::uint64_t held_bytes = 0;
    std::uint64_t peak_bytes = 0;
    std::uint64_t mapped_bytes = 0;
  } memory{};
};

std::string_view to_string(GenerationEnd end);

// One line of JSON. Scripts read it, so field names are stable.
std::string to_json(const RunReport& report, const ReportedConfig& config);
// {"error": {"code", "message"}}
std::string to_json(const Error& error);

// A summary line for people: tokens, cycles, acceptance, bytes, time.
std::string account(const RunReport& report);
// A summary line of memory and the time to the first token.
std::string memory_account(const RunReport& report);

}  // namespace edgedraft::client
