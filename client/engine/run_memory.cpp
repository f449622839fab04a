#include "client/engine/run_memory.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "client/devices/cache_file.h"
#include "shared/program/options.h"

namespace edgedraft {
namespace {

using nlohmann::json;

// The share of what is known of the server's other drafters that is kept after an answer.
constexpr double kKept = 0.9;

json to_json(const CostLine& line) {
  const CostLine::Sums s = line.sums();
  return {s.weight, s.rows, s.seconds, s.rows_squared, s.product};
}

// Throws json::exception.
CostLine line_from(const json& sums) {
  const auto s = sums.get<std::array<double, 5>>();
  return CostLine(
      {.weight = s[0], .rows = s[1], .seconds = s[2], .rows_squared = s[3], .product = s[4]});
}

bool is_share_of(double number, double all) {
  return std::isfinite(number) && number >= 0.0 && number <= all;
}

// What no run can have taught is left out.
RunKnowledge knowledge_from(const json& item) {
  RunKnowledge known{.pass = line_from(item.at("pass")), .step = line_from(item.at("step"))};
  constexpr double kTriedMax = 1e6;
  constexpr double kRoundTripMax = 1e3;
  constexpr double kCorrectionMax = 100.0;
  const double tried = item.at("tried");
  const auto right = item.at("right").get<std::array<double, RunKnowledge::kRanks>>();
  // Each of the tried had one right rank at most. Sums that were scaled down are rounded.
  const double tried_rounded = tried * (1.0 + 1e-6);
  if (is_share_of(tried, kTriedMax) &&
      std::ranges::all_of(right, [&](double count) { return is_share_of(count, tried); }) &&
      std::accumulate(right.begin(), right.end(), 0.0) <= tried_rounded) {
    known.tried = tried;
    known.right = right;
  }
  const double round_trip = item.at("round_trip");
  if (is_share_of(round_trip, kRoundTripMax)) known.round_trip = round_trip;
  const auto came = item.at("came_by_predicted").get<std::array<double, 4>>();
  if (std::ranges::all_of(came, [](double c) { return is_share_of(c, kCorrectionMax); })) {
    known.came_by_predicted = came;
  }
  // Files of earlier builds do not have it.
  const double streamed = item.value("streamed_answers", 0.0);
  if (is_share_of(streamed, kTriedMax)) {
    known.streamed_answers = static_cast<std::uint32_t>(streamed);
  }
  return known;
}

json to_json(const RunMemory::Key& key, const RunKnowledge& known) {
  return {{"server", key.server},
          {"drafter", key.drafter},
          {"pass", to_json(known.pass)},
          {"step", to_json(known.step)},
          {"right", known.right},
          {"tried", known.tried},
          {"round_trip", known.round_trip},
          {"came_by_predicted", known.came_by_predicted},
          {"streamed_answers", known.streamed_answers}};
}

}  // namespace

RunMemory::RunMemory(std::filesystem::path file) : file_(std::move(file)) {
  const auto stored = read_cache_file(file_);
  if (!stored) return;
  try {
    decltype(entries_) entries;
    for (const json& item : stored->at("runs")) {
      if (entries.size() == kEntriesMax) break;
      entries.emplace_back(Key{.server = item.at("server"), .drafter = item.at("drafter")},
                           knowledge_from(item));
    }
    entries_ = std::move(entries);
  } catch (const json::exception&) {
    // Whatever it is, it is not ours: learn anew.
  }
}

std::filesystem::path RunMemory::default_file() {
  return place_in(cache_directory(), "servers.json");
}

std::optional<RunKnowledge> RunMemory::find(const Key& key) const {
  const auto found = std::ranges::find(entries_, key, &std::pair<Key, RunKnowledge>::first);
  if (found == entries_.end()) return std::nullopt;
  RunKnowledge known = found->second;
  // An answer that was cut at once has taught nothing of passes, or of streams.
  constexpr auto kStream = static_cast<std::size_t>(RunKind::stream);
  for (const auto& [entry, last] : entries_) {
    if (entry.server != key.server) continue;
    if (last.pass.known() && last.round_trip > 0.0) {
      known.pass = last.pass;
      known.round_trip = last.round_trip;
    }
    // How streams come true has nothing to do with a drafter either.
    const double streams_came = last.came_by_predicted[kStream];
    if (streams_came > 0.0) known.came_by_predicted[kStream] = streams_came;
  }
  return known;
}

Result<void> RunMemory::put(const Key& key, const RunKnowledge& knowledge) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; });
  for (auto& [entry, known] : entries_) {
    if (entry.server != key.server) continue;
    known.tried *= kKept;
    for (double& right : known.right) right *= kKept;
  }
  if (entries_.size() == kEntriesMax) entries_.erase(entries_.begin());
  entries_.emplace_back(key, knowledge);
  json runs = json::array();
  for (const auto& [entry, known] : entries_) runs.push_back(to_json(entry, known));
  return write_cache_file(file_, {{"runs", runs}});
}

}  // namespace edgedraft
