#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/generation/generation.h"
#include "shared/base/sha256.h"

namespace edgedraft {

// How an answer came about, for whoever compares answers.
struct ReportedConfig {
  std::string server;
  std::string drafter;  // its kind; "none" for plain decoding
  std::string bundle;
  std::string tap;            // names what the drafter is sent; empty: nothing
  std::string device;         // what drafts: "cpu", "vulkan:0"; "none" for plain decoding
  std::string device_name;    // its maker's name
  std::string device_reason;  // why that one
  GenerationOptions generation;
  std::string pace_profile;  // empty: none
  // Drafts were made from a known answer, right with this probability a position.
  std::optional<double> synthetic_acceptance;
  std::optional<Digest> target_fingerprint;
  std::optional<Digest> tokenizer_fingerprint;
  std::optional<Digest> drafter_fingerprint;
};

// One answer and what it cost.
struct AnswerReport {
  std::string text;
  std::vector<std::uint32_t> tokens;
  std::vector<Provenance> provenance;  // a token each
  AnswerEnd end = AnswerEnd::cancelled;
  GenerationStats stats;
  LinkStats link;  // of this answer alone
};

std::string_view to_string(AnswerEnd end);

// One line of JSON; scripts read it, so its names stay.
std::string to_json(const AnswerReport& report, const ReportedConfig& config);
// {"error": {"code", "message"}}
std::string to_json(const Error& error);

// A line for the reader of an answer: tokens, cycles, acceptance, bytes, time.
std::string account(const AnswerReport& report);

}  // namespace edgedraft
