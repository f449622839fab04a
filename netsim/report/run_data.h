#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "netsim/run/run_record.h"
#include "shared/base/error.h"

namespace edgedraft::netsim {

// Tokens of an answer that became visible at once.
struct Arrival {
  double at_s;  // since the request, plus the added round trip of arms beside the server
  double tokens;
};

// A line of runs.jsonl, as far as the report uses it.
struct Run {
  std::string trial;
  std::string setting;  // network and device; tables and plots are per setting
  std::string network;
  std::string device;
  std::string arm;
  std::string prompt;
  std::string task;
  std::string pair_key;        // equal for runs of other arms under equal conditions
  std::uint32_t prompt_index;  // in the experiment's order
  std::uint32_t repetition;
  std::uint32_t clients;
  std::uint32_t client;
  std::optional<std::uint32_t> offline_after;
  bool link_approximate;
  bool local;           // without a server: its text may differ from the target's
  std::string failure;  // empty: none
  double tokens, seconds, rate, predicted_rate, first_token_s, tau, calls, cycles, drafted;
  double asked_at_s;              // since its trial's first client started
  double added_s;                 // round trip charged to an arm beside the server
  std::vector<Arrival> arrivals;  // in order; only for trials with several clients
  double bytes_up, bytes_down, activation_raw, activation_sent, offline_tokens;
  std::array<double, kPhaseNames.size()> phases;
  double gap_p50, gap_p95, gap_p99, stalls, retransmits, late;
  std::string answer;  // hash
  std::optional<bool> right;
  nlohmann::ordered_json events;
};

// A moment of an answer with new visible tokens or a state change.
struct Moment {
  double at_ms;
  double answer_tokens;
  std::string state;  // empty: tokens
};

struct RunData {
  nlohmann::ordered_json manifest;
  std::vector<nlohmann::ordered_json> calibrations;
  std::vector<Run> runs;
  std::vector<std::string> settings;  // in the experiment's order
  std::vector<std::string> arms;
  // Gaps between visible updates in ms, by setting and arm, for answers without a link cut.
  std::map<std::pair<std::string, std::string>, std::vector<double>> gaps;
  // One answer's timeline per arm and setting; all of a setting have the same prompt.
  std::map<std::pair<std::string, std::string>, std::vector<Moment>> timelines;
  std::map<std::pair<std::string, std::string>, std::size_t> timeline_runs;  // into `runs`

  std::vector<const Run*> of(const std::string& setting, const std::string& arm) const;
};

// Errors    io; usage for a folder without results, or naming a malformed line
Result<RunData> read_run_data(const std::filesystem::path& results);

}  // namespace edgedraft::netsim
