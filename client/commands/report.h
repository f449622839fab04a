#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/commands/answer_options.h"
#include "client/engine/engine.h"
#include "shared/base/clock.h"
#include "shared/base/sha256.h"

namespace edgedraft {

// How an answer came about, for comparing answers.
struct ReportedConfig {
  const AnswerConfig& config;  // outlives it
  std::string drafter;         // its kind; "none" for plain decoding
  std::string bundle;
  std::string drafter_reason;   // why this one of several; empty: there was no choice
  std::string tap;              // names what the drafter is sent; empty: nothing
  std::string device = "none";  // what drafts: "cpu", "vulkan:0"; "none" for plain decoding
  std::string device_name;      // its maker's name
  std::string device_reason;    // why that one
  std::optional<Digest> target_fingerprint;
  std::optional<Digest> tokenizer_fingerprint;
  std::optional<Digest> drafter_fingerprint;
};

// One answer and what it cost.
struct AnswerReport : AnswerOutcome {
  std::string text;
  // That the machine's processors took meanwhile, for this and everything else; nothing if the
  // system does not tell.
  std::optional<double> energy_joules{};
  // From the program's start to the first token of its first answer; nothing for later ones.
  std::optional<Duration> start_to_first_token{};
  // What drafters hold, the most that they held at once, and the size of the files that they are
  // read from, which the system may drop and read again.
  struct Memory {
    std::uint64_t held_bytes = 0;
    std::uint64_t peak_bytes = 0;
    std::uint64_t mapped_bytes = 0;
  } memory{};
};

std::string_view to_string(AnswerEnd end);

// One line of JSON; scripts read it, so its names stay.
std::string to_json(const AnswerReport& report, const ReportedConfig& config);
// {"error": {"code", "message"}}
std::string to_json(const Error& error);

// A line for the reader of an answer: tokens, cycles, acceptance, bytes, time.
std::string account(const AnswerReport& report);
// Another one, of memory and the time to the first token.
std::string memory_account(const AnswerReport& report);

}  // namespace edgedraft
