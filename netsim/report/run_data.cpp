#include "netsim/report/run_data.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <tuple>

#include "netsim/run/results.h"

namespace edgedraft::netsim {
namespace {

using nlohmann::ordered_json;

std::string text(const ordered_json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Run to_run(const ordered_json& line) {
  Run run{};
  run.trial = text(line, "trial");
  run.network = text(line, "network");
  run.device = text(line, "device");
  run.setting = run.network + " · " + run.device;
  run.arm = text(line, "arm");
  run.prompt = text(line, "prompt");
  run.task = text(line, "task");
  run.prompt_index = static_cast<std::uint32_t>(number_of(line, "prompt_index"));
  run.repetition = static_cast<std::uint32_t>(number_of(line, "repetition"));
  run.clients = static_cast<std::uint32_t>(number_of(line, "clients"));
  run.client = static_cast<std::uint32_t>(number_of(line, "client"));
  if (const auto cut = line.find("offline_after"); cut != line.end() && cut->is_number()) {
    run.offline_after = cut->get<std::uint32_t>();
  }
  run.link_approximate = line.value("link_approximate", false);
  run.local = text(line, "arm_kind") == "local";
  run.failure = text(line, "failure");
  run.pair_key = run.setting + '|' + std::to_string(number_of(line, "seed")) + '|' +
                 std::to_string(number_of(line, "repetition")) + '|' + run.prompt + '|' +
                 std::to_string(run.clients) + '|' + std::to_string(run.client);
  run.tokens = number_of(line, "tokens");
  run.seconds = number_of(line, "seconds");
  run.asked_at_s = number_of(line, "asked_at_ms") / 1000;
  run.added_s = number_of(line, "added_round_trip_ms") / 1000;
  run.rate = number_of(line, "tokens_per_second");
  run.predicted_rate = number_of(line, "predicted_tokens_per_second");
  run.first_token_s = number_of(line, "time_to_first_token_s");
  run.tau = number_of(line, "tau");
  run.calls = number_of(line, "target_calls");
  run.cycles = number_of(line, "cycles");
  run.drafted = number_of(line, "drafted");
  run.bytes_up = number_of(line, "bytes_up");
  run.bytes_down = number_of(line, "bytes_down");
  run.activation_raw = number_of(line, "activation_bytes_raw");
  run.activation_sent = number_of(line, "activation_bytes_sent");
  run.offline_tokens = number_of(line, "offline_tokens");
  for (std::size_t i = 0; i < kPhaseNames.size(); ++i) {
    run.phases[i] = number_of(line, phase_key(i).c_str());
  }
  run.gap_p50 = number_of(line, "gap_ms_p50");
  run.gap_p95 = number_of(line, "gap_ms_p95");
  run.gap_p99 = number_of(line, "gap_ms_p99");
  run.stalls = number_of(line, "stalls_over_1s");
  run.retransmits = number_of(line, "tcp_retransmits");
  run.late = number_of(line, "late_passes") + number_of(line, "late_drafts");
  run.answer = text(line, "answer_sha256");
  if (const auto right = line.find("matches_reference"); right != line.end() && right->is_boolean())
    run.right = right->get<bool>();
  run.events = line.value("link_events", ordered_json::array());
  return run;
}

// The file's current lines; it is created with the first one.
Result<std::vector<ordered_json>> lines_so_far(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::vector<ordered_json>();
  return read_lines(file);
}

// True if the link was down during the answer.
bool met_outage(const Run& run) {
  return std::ranges::any_of(run.events, [](const ordered_json& event) {
    return event.value("kind", std::string()) == "down";
  });
}

// Chooses the answers for timelines. Arms can only be compared over one prompt, and lanes finish
// prompts in any order. Take the prompt in which most arms met an outage, then the most answered
// one, then the experiment's first.
void choose_timelines(RunData& data) {
  for (const std::string& setting : data.settings) {
    struct Answered {
      std::set<std::string> arms;
      std::set<std::string> disturbed;                              // arms that met an outage
      std::tuple<std::uint32_t, std::uint32_t, std::size_t> place;  // in the experiment
    };
    std::map<std::string, Answered> by_circumstances;
    const auto can_be_drawn = [&](const Run& run) {
      return run.setting == setting && run.client == 0 && run.failure.empty();
    };
    for (std::size_t i = 0; i < data.runs.size(); ++i) {
      const Run& run = data.runs[i];
      if (!can_be_drawn(run)) continue;
      const Answered first{
          .arms = {}, .disturbed = {}, .place = {run.repetition, run.prompt_index, i}};
      Answered& answered = by_circumstances.try_emplace(run.pair_key, first).first->second;
      answered.arms.insert(run.arm);
      if (met_outage(run)) answered.disturbed.insert(run.arm);
    }
    const auto best = std::ranges::max_element(by_circumstances, [](const auto& a, const auto& b) {
      const auto rank = [](const Answered& answered) {
        return std::pair(answered.disturbed.size(), answered.arms.size());
      };
      return rank(a.second) != rank(b.second) ? rank(a.second) < rank(b.second)
                                              : a.second.place > b.second.place;
    });
    if (best == by_circumstances.end()) continue;
    for (std::size_t i = 0; i < data.runs.size(); ++i) {
      const Run& run = data.runs[i];
      if (!can_be_drawn(run) || run.pair_key != best->first) continue;
      std::size_t& chosen = data.timeline_runs.try_emplace({setting, run.arm}, i).first->second;
      // Prefers a cut, the same one for all arms.
      const auto& cut = data.runs[chosen].offline_after;
      if (run.offline_after && (!cut || *run.offline_after < *cut)) chosen = i;
    }
  }
}

}  // namespace

std::vector<const Run*> RunData::of(const std::string& setting, const std::string& arm) const {
  std::vector<const Run*> found;
  for (const Run& run : runs) {
    if (run.setting == setting && run.arm == arm) found.push_back(&run);
  }
  return found;
}

Result<RunData> read_run_data(const std::filesystem::path& results) {
  RunData data;
  std::ifstream in(results / "manifest.json");
  data.manifest = ordered_json::parse(in, nullptr, false);
  if (!data.manifest.is_object()) {
    return Error{Errc::usage, results.string() +
                                  ": no results (manifest.json is missing); give a folder written "
                                  "by `edgedraft-netsim run`"};
  }
  const auto lines = lines_so_far(results / "runs.jsonl");
  if (!lines) return lines.error();
  if (lines->empty()) {
    return Error{Errc::usage, results.string() + ": no finished run yet"};
  }
  for (const ordered_json& line : *lines) data.runs.push_back(to_run(line));
  const auto calibrations = lines_so_far(results / "calibration.jsonl");
  if (!calibrations) return calibrations.error();
  data.calibrations = *calibrations;
  for (const Run& run : data.runs) {
    if (std::ranges::find(data.settings, run.setting) == data.settings.end()) {
      data.settings.push_back(run.setting);
    }
  }
  // In the experiment's order, not the blocks'.
  std::set<std::string> present;
  for (const Run& run : data.runs) present.insert(run.arm);
  for (const ordered_json& arm : data.manifest.value("arms", ordered_json::array())) {
    if (present.contains(text(arm, "name"))) data.arms.push_back(text(arm, "name"));
  }

  choose_timelines(data);
  std::map<std::pair<std::string, std::uint32_t>, Run*> answered;
  for (Run& run : data.runs) {
    if (run.failure.empty()) answered[{run.trial, run.client}] = &run;
  }
  std::ifstream cycles(results / "cycles.jsonl");
  std::map<std::string, double> shown_at;
  for (std::string line; std::getline(cycles, line);) {
    const auto cycle = ordered_json::parse(line, nullptr, false);
    if (!cycle.is_object()) continue;
    const auto client = static_cast<std::uint32_t>(number_of(cycle, "client"));
    const auto found = answered.find({text(cycle, "trial"), client});
    if (found == answered.end()) continue;
    Run& run = *found->second;
    const bool shows = number_of(cycle, "tokens") > 0;
    if (shows && run.clients > 1) {
      run.arrivals.push_back({.at_s = number_of(cycle, "at_ms") / 1000 + run.added_s,
                              .tokens = number_of(cycle, "tokens")});
    }
    if (client != 0) continue;
    const std::pair key{run.setting, run.arm};
    const double at = number_of(cycle, "at_ms");
    if (shows && !run.offline_after) {
      if (const auto last = shown_at.find(run.trial); last != shown_at.end()) {
        data.gaps[key].push_back(at - last->second);
      }
      shown_at[run.trial] = at;
    }
    const bool states = text(cycle, "kind") == "state";
    const auto chosen = data.timeline_runs.find(key);
    const bool drawn = chosen != data.timeline_runs.end() && &data.runs[chosen->second] == &run;
    if ((shows || states) && drawn) {
      data.timelines[key].push_back({.at_ms = at,
                                     .answer_tokens = number_of(cycle, "answer_tokens"),
                                     .state = states ? text(cycle, "state") : std::string()});
    }
  }
  return data;
}

}  // namespace edgedraft::netsim
