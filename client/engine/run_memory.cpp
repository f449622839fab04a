#include "client/engine/run_memory.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "client/devices/cache_file.h"
#include "shared/program/options.h"

namespace edgedraft::client {
namespace {

using nlohmann::json;

// Share of the evidence on the server's other drafters that is kept after an answer.
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

constexpr double kTokensMax = 1e6;
constexpr double kTokenSecondsMax = 1e3;
constexpr double kBalanceMax = 1e3;

// Throws json::exception. Unknown if no run can have measured it.
TokenRate rate_from(const json& item) {
  const auto [tokens, seconds] = item.get<std::array<double, 2>>();
  const bool possible = is_share_of(tokens, kTokensMax) && tokens > 0.0 && seconds > 0.0 &&
                        is_share_of(seconds, kTokenSecondsMax * tokens);
  return possible ? TokenRate{.tokens = tokens, .seconds = seconds} : TokenRate{};
}

// Leaves out values that no run can have measured.
RunKnowledge knowledge_from(const json& item) {
  RunKnowledge known{.pass = PassCosts(line_from(item.at("pass"))),
                     .step = line_from(item.at("step"))};
  constexpr double kTriedMax = 1e6;
  constexpr double kRoundTripMax = 1e3;
  const double tried = item.at("tried");
  const auto right = item.at("right").get<std::array<double, RunKnowledge::kRanks>>();
  // Each tried token had at most one right rank. The tolerance covers rounding of scaled sums.
  const double tried_rounded = tried * (1.0 + 1e-6);
  if (is_share_of(tried, kTriedMax) &&
      std::ranges::all_of(right, [&](double count) { return is_share_of(count, tried); }) &&
      std::accumulate(right.begin(), right.end(), 0.0) <= tried_rounded) {
    known.tried = tried;
    known.right = right;
  }
  const double round_trip = item.at("round_trip");
  if (is_share_of(round_trip, kRoundTripMax)) known.round_trip = round_trip;
  for (std::size_t i = 0; i < known.rates.size(); ++i) {
    known.rates[i] = rate_from(item.at("rates").at(i));
  }
  const double balance = item.at("balance");
  if (is_share_of(std::abs(balance), kBalanceMax)) known.balance = balance;
  const double drafted = item.at("drafted_tokens");
  if (is_share_of(drafted, kTokensMax)) known.drafted_tokens = drafted;
  return known;
}

json to_json(const RunMemory::Key& key, const RunKnowledge& known) {
  json rates = json::array();
  for (const TokenRate& rate : known.rates) rates.push_back({rate.tokens, rate.seconds});
  return {{"server", key.server},
          {"drafter", key.drafter},
          {"pass", to_json(known.pass.line())},
          {"step", to_json(known.step)},
          {"right", known.right},
          {"tried", known.tried},
          {"round_trip", known.round_trip},
          {"rates", rates},
          {"balance", known.balance},
          {"drafted_tokens", known.drafted_tokens}};
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
    // Unreadable content counts as no content.
  }
}

std::filesystem::path RunMemory::default_file() {
  return place_in(cache_directory(), "servers.json");
}

std::optional<RunKnowledge> RunMemory::find(const Key& key) const {
  const auto found = std::ranges::find(entries_, key, &std::pair<Key, RunKnowledge>::first);
  if (found == entries_.end()) return std::nullopt;
  RunKnowledge known = found->second;
  // An answer cut at once has measured neither passes nor streams.
  constexpr auto kStream = static_cast<std::size_t>(RunKind::stream);
  for (const auto& [entry, last] : entries_) {
    if (entry.server != key.server) continue;
    if (last.pass.known() && last.round_trip > 0.0) {
      known.pass = last.pass;
      known.round_trip = last.round_trip;
    }
    // A stream's rate does not depend on the drafter either.
    if (last.rates[kStream].known()) {
      known.rates[kStream] = last.rates[kStream];
      known.drafted_tokens = last.drafted_tokens;
    }
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

}  // namespace edgedraft::client
