#include "netsim/run/run_record.h"

#include <algorithm>
#include <sstream>

#include "netsim/prediction.h"
#include "netsim/run/results.h"
#include "shared/base/bytes.h"
#include "shared/base/percentile.h"
#include "shared/base/sha256.h"

namespace edgedraft::netsim {
namespace {

using nlohmann::ordered_json;

constexpr double kStallMs = 1000;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::vector<ordered_json> lines_of(const std::string& text) {
  std::vector<ordered_json> lines;
  std::stringstream in(text);
  for (std::string line; std::getline(in, line);) {
    auto json = ordered_json::parse(line, nullptr, false);
    if (json.is_object()) lines.push_back(std::move(json));
  }
  return lines;
}

struct CycleSums {
  std::array<double, kPhaseNames.size()> phases{};
  std::vector<double> gaps;  // between moments with new visible text, ascending
  double retransmits = 0;
  std::uint64_t stalls = 0;
  std::uint64_t late_drafts = 0;
};

CycleSums sum(const std::vector<ordered_json>& cycles) {
  CycleSums sums;
  double shown_at = -1;
  for (const ordered_json& cycle : cycles) {
    sums.late_drafts += cycle.value("late_drafts", std::uint64_t{0});
    const ordered_json server = cycle.value("server", ordered_json::object());
    for (std::size_t i = 0; i < kPhaseNames.size(); ++i) {
      // A server that drafts for itself has a draft time, too.
      const std::string key = phase_key(i);
      sums.phases[i] += number_of(cycle, key.c_str()) + number_of(server, key.c_str());
    }
    if (const auto tcp = cycle.find("tcp"); tcp != cycle.end() && tcp->is_object()) {
      sums.retransmits = number_of(*tcp, "retransmits");
    }
    if (number_of(cycle, "tokens") < 1) continue;
    if (shown_at >= 0) sums.gaps.push_back(number_of(cycle, "at_ms") - shown_at);
    shown_at = number_of(cycle, "at_ms");
  }
  std::sort(sums.gaps.begin(), sums.gaps.end());
  for (const double gap : sums.gaps) sums.stalls += gap > kStallMs ? 1 : 0;
  return sums;
}

// The model's prediction for an answer of that length, if possible: drafter quality is given, and
// times come from profiles. It does not cover outages.
ordered_json predicted(const RunSource& s, const ordered_json& stats) {
  const Arm& arm = s.experiment.arms[s.trial.arm];
  const bool streams = arm.kind == Arm::Kind::plain && arm.options.empty();
  const bool splits = arm.kind == Arm::Kind::split && arm.acceptance && arm.hold != "auto" &&
                      arm.server_drafter.empty() && s.device.pace.paces_drafter();
  const auto tokens = static_cast<std::uint32_t>(number_of(stats, "tokens"));
  const bool alone = s.trial.clients == 1 && !s.trial.offline_after &&
                     arm.place == Arm::Place::device && arm.options.empty() && s.events.empty();
  if (!alone || !(streams || splits) || tokens < 2 || !s.device.pace.paces_target()) return {};
  PredictedRun run{
      .network = s.network,
      .pace = s.device.pace,
      .drafter = arm.bundle,
      .acceptance = arm.acceptance.value_or(0.0),
      .row_bytes = s.experiment.padded_payloads ? s.device.pace.activation_bytes(arm.bundle) : 0,
      .prompt_rows = static_cast<std::uint32_t>(number_of(stats, "prompt_tokens")),
      .tokens = tokens};
  if (splits) {
    run.kind = arm.hold == "lockstep"  ? RunKind::sequential
               : arm.hold == "economy" ? RunKind::economy
                                       : RunKind::overlap;
  }
  if (arm.chain) run.shape = {.breadth = 1, .depth = *arm.chain, .nodes = *arm.chain};
  if (arm.shape) run.shape = *arm.shape;
  constexpr std::uint32_t kAnswers = 50;
  return 1.0 / predict(run, kAnswers, 1).seconds;
}

}  // namespace

bool matches(const std::string& answer, const std::string& reference) {
  return trimmed(answer) == trimmed(reference);
}

ordered_json run_record(const RunSource& s) {
  const std::size_t index = prompt_index(s.experiment, s.trial, s.client);
  const Prompt& prompt = s.experiment.prompts[index];
  const Arm& arm = s.experiment.arms[s.trial.arm];
  const ordered_json answer = ordered_json::parse(s.answer, nullptr, false);
  const bool whole = s.status == 0 && answer.is_object() && answer.contains("stats");
  const ordered_json stats = whole ? answer["stats"] : ordered_json::object();
  const CycleSums cycles = sum(lines_of(s.cycles));
  const bool paced = s.device.pace.paces_target() || s.device.pace.paces_drafter();
  const auto stat = [&](const char* key) {
    return whole && stats.contains(key) ? stats[key] : ordered_json();
  };
  const double elapsed = number_of(stats, "seconds") + s.added_ms / 1000;
  const std::string text = whole ? answer.value("text", std::string()) : std::string();

  ordered_json run{
      {"trial", s.trial.id},
      {"network", s.network.name},
      {"driver", s.driver},
      {"link_approximate", s.approximate},
      {"device", s.device.name},
      {"quick", s.experiment.quick},
      {"timed", s.experiment.timed},
      {"paced", paced},
      {"padded_payloads", number_of(stats, "pad_bytes_down") > 0},
      {"synthetic_acceptance", arm.acceptance ? ordered_json(*arm.acceptance) : ordered_json()},
      {"seed", s.seed},
      {"repetition", s.trial.repetition},
      {"prompt", prompt.id},
      {"prompt_index", index},
      {"task", prompt.task},
      {"arm", arm.name},
      {"arm_kind", to_string(arm.kind)},
      {"beside_server", arm.place == Arm::Place::server},
      {"clients", s.trial.clients},
      {"client", s.client},
      {"offline_after",
       s.trial.offline_after ? ordered_json(*s.trial.offline_after) : ordered_json()},
      {"failure", s.failure.empty() ? ordered_json() : ordered_json(s.failure)},
      {"tokens", stat("tokens")},
      {"seconds", whole ? ordered_json(elapsed) : ordered_json()},
      {"added_round_trip_ms", s.added_ms},
      {"tokens_per_second",
       whole && elapsed > 0 ? ordered_json(number_of(stats, "tokens") / elapsed) : ordered_json()},
      {"predicted_tokens_per_second", predicted(s, stats)},
      {"time_to_first_token_s",
       whole ? ordered_json(number_of(stats, "time_to_first_token_s") + s.added_ms / 1000)
             : ordered_json()}};
  for (const char* key :
       {"cycles", "overlap", "tau", "target_calls", "drafted", "accepted", "streamed_tokens",
        "bytes_up", "bytes_down", "activation_bytes_raw", "activation_bytes_sent", "pad_bytes_down",
        "offline_tokens", "rewritten_tokens", "reconnects", "resyncs"}) {
    run[key] = stat(key);
  }
  run["late_passes"] = s.late_passes;
  run["late_drafts"] = cycles.late_drafts;
  for (std::size_t i = 0; i < kPhaseNames.size(); ++i) run[phase_key(i)] = cycles.phases[i];
  run["gap_ms_p50"] = percentile(cycles.gaps, 0.5);
  run["gap_ms_p95"] = percentile(cycles.gaps, 0.95);
  run["gap_ms_p99"] = percentile(cycles.gaps, 0.99);
  run["gap_ms_max"] = cycles.gaps.empty() ? 0.0 : cycles.gaps.back();
  run["stalls_over_1s"] = cycles.stalls;
  run["tcp_retransmits"] = cycles.retransmits;
  run["finish"] = whole ? answer.value("finish", ordered_json()) : ordered_json();
  run["answer_sha256"] =
      whole ? ordered_json(to_hex(sha256(as_byte_view(text))).substr(0, 16)) : ordered_json();
  run["matches_reference"] = whole && !prompt.reference.empty()
                                 ? ordered_json(matches(text, prompt.reference))
                                 : ordered_json();
  run["link_events"] = s.events;
  return run;
}

std::vector<ordered_json> cycle_records(const RunSource& s) {
  std::vector<ordered_json> records;
  for (const ordered_json& line : lines_of(s.cycles)) {
    ordered_json record{{"trial", s.trial.id}, {"client", s.client}};
    record.update(line);
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace edgedraft::netsim
