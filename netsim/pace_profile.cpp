#include "netsim/pace_profile.h"

#include <algorithm>
#include <utility>

#include "shared/base/text_file.h"
#include "shared/program/toml_reader.h"

namespace edgedraft {
namespace {

constexpr std::uint64_t kProfileBytesMax = 1u << 20;
constexpr double kMillisecondsMin = 1e-6;  // one clock tick
constexpr double kMillisecondsMax = 600'000;
constexpr double kRowsMax = 1 << 20;
constexpr double kActivationBytesMax = 32768;

Duration from_milliseconds(double ms) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
}

// Entry of a drafter, else of its kind, else the default; null if there is none.
template <class Value>
const Value* entry_for(const std::string& drafter, const std::map<std::string, Value>& table) {
  for (const std::string& name :
       {drafter, drafter.substr(0, drafter.find('-')), std::string("default")}) {
    if (const auto found = table.find(name); found != table.end()) return &found->second;
  }
  return nullptr;
}

template <class Value>
Value value_for(const std::string& drafter, const std::map<std::string, Value>& table) {
  const Value* const entry = entry_for(drafter, table);
  return entry == nullptr ? Value{} : *entry;
}

Error wrong(std::string what) {
  return {Errc::usage, std::move(what)};
}

template <class Value>
Result<void> check_entry(const std::string& profile, const std::string& table_name,
                         const std::string& drafter, const std::map<std::string, Value>& table) {
  if (table.empty() || entry_for(drafter, table) != nullptr) return {};
  const std::string kind = drafter.substr(0, drafter.find('-'));
  return wrong("device profile '" + profile + "': [" + table_name +
               "] has no entry for the drafter " + drafter + ": add \"" + drafter +
               (kind == drafter ? "" : "\", \"" + kind) + "\" or \"default\"");
}

}  // namespace

Result<PaceProfile> PaceProfile::read(const std::filesystem::path& file) {
  std::error_code missing;
  if (!std::filesystem::is_regular_file(file, missing)) {
    return Error{Errc::io, file.string() + ": no such device profile"};
  }
  const auto text = read_text_file(file, kProfileBytesMax);
  if (!text) return usage_error(text.error().message);
  const auto toml = parse_toml(*text, file);
  if (!toml) return toml.error();
  TomlFile source{.name = file.string()};
  TomlReader root(*toml, source);
  PaceProfile profile;
  profile.name_ = file.stem().string();
  root.read("name", profile.name_);
  root.read("description", profile.description_);

  root.table("target", "its key is pass_ms", [&](TomlReader& target) {
    const char* const form =
        "[rows, milliseconds], rows from 1 and ascending, milliseconds above 0";
    std::vector<std::pair<double, double>> points;
    target.require("pass_ms", std::string("a list of ") + form);
    target.read("pass_ms", points, form);
    double least = 1;
    for (const auto& [rows, ms] : points) {
      if (!(rows >= least && rows <= kRowsMax) || !(ms > 0 && ms <= kMillisecondsMax)) {
        target.wrong("pass_ms", std::string("each element is ") + form);
      }
      profile.pass_points_.push_back({.rows = rows, .milliseconds = ms});
      least = rows + 1;
    }
  });
  const auto read_steps = [&](const char* key, Steps& steps) {
    root.table(key, "its key is step_ms", [&](TomlReader& table) {
      table.require("step_ms", "a table of milliseconds by drafter");
      table.table("step_ms", "it lists milliseconds by drafter", [&](TomlReader& drafters) {
        for (const std::string& drafter : drafters.keys()) {
          drafters.read(drafter, steps[drafter], kMillisecondsMin, kMillisecondsMax);
        }
      });
    });
  };
  read_steps("draft", profile.device_steps_);
  read_steps("beside_target", profile.beside_target_steps_);
  root.table("activation_bytes", "it lists bytes per token by drafter", [&](TomlReader& drafters) {
    for (const std::string& drafter : drafters.keys()) {
      drafters.read(drafter, profile.activation_bytes_[drafter], 1, kActivationBytesMax);
    }
  });
  root.refuse_unknown_keys();
  if (source.error) return *source.error;
  return profile;
}

Duration PaceProfile::target_pass(std::uint32_t rows) const {
  if (pass_points_.empty()) return {};
  const double at = rows;
  if (at <= pass_points_.front().rows || pass_points_.size() == 1) {
    return from_milliseconds(pass_points_.front().milliseconds);
  }
  auto upper = std::find_if(pass_points_.begin(), pass_points_.end(),
                            [&](const PassPoint& point) { return point.rows >= at; });
  if (upper == pass_points_.end()) --upper;
  const PassPoint& high = *upper;
  const PassPoint& low = *(upper - 1);
  const double slope = (high.milliseconds - low.milliseconds) / (high.rows - low.rows);
  return from_milliseconds(std::max(0.0, low.milliseconds + slope * (at - low.rows)));
}

Duration PaceProfile::draft_step(const std::string& drafter, Place place) const {
  return from_milliseconds(
      value_for(drafter, place == Place::device ? device_steps_ : beside_target_steps_));
}

std::uint32_t PaceProfile::activation_bytes(const std::string& drafter) const {
  return value_for(drafter, activation_bytes_);
}

Result<void> PaceProfile::check_paces(const std::string& drafter, Place place) const {
  return place == Place::device
             ? check_entry(name_, "draft.step_ms", drafter, device_steps_)
             : check_entry(name_, "beside_target.step_ms", drafter, beside_target_steps_);
}

Result<void> PaceProfile::check_pads(const std::string& drafter) const {
  return check_entry(name_, "activation_bytes", drafter, activation_bytes_);
}

}  // namespace edgedraft
