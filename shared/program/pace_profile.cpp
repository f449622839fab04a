#include "shared/program/pace_profile.h"

#include <algorithm>
#include <sstream>

#include "shared/program/toml_text.h"

namespace edgedraft {
namespace {

constexpr double kMillisecondsMax = 600'000;
constexpr double kRowsMax = 1 << 20;
constexpr std::int64_t kActivationBytesMax = 32768;

Duration from_milliseconds(double ms) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
}

// The first key of `table` that is none of `known`; empty if there is none.
std::string unknown_key(const toml::table& table, std::initializer_list<std::string_view> known) {
  for (const auto& [key, node] : table) {
    if (std::find(known.begin(), known.end(), key.str()) == known.end())
      return std::string(key.str());
  }
  return {};
}

// A drafter's own entry, else its kind's, else the default; null if there is none of them.
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
               "] has nothing for the drafter " + drafter + ": add \"" + drafter +
               (kind == drafter ? "" : "\", \"" + kind) + "\" or \"default\"");
}

}  // namespace

Result<PaceProfile> PaceProfile::read(const std::filesystem::path& file) {
  std::error_code missing;
  if (!std::filesystem::is_regular_file(file, missing)) {
    return Error{Errc::io, file.string() + ": there is no such device profile"};
  }
  toml::table root;
  try {
    root = parse_toml_file(file);
  } catch (const toml::parse_error& e) {
    std::ostringstream at;
    at << file.string() << ", line " << e.source().begin.line << ": " << e.description();
    return wrong(at.str());
  }
  const auto fail = [&](const std::string& what) { return wrong(file.string() + ": " + what); };
  if (const auto key = unknown_key(
          root, {"name", "description", "target", "draft", "beside_target", "activation_bytes"});
      !key.empty()) {
    return fail("a device profile has no key '" + key +
                "'; it has name, description, [target], [draft.step_ms], "
                "[beside_target.step_ms] and [activation_bytes]");
  }

  PaceProfile profile;
  profile.name_ = root["name"].value_or(file.stem().string());
  profile.description_ = root["description"].value_or(std::string());

  if (const toml::node* node = root.get("target")) {
    const toml::table* target = node->as_table();
    const toml::array* points = target ? (*target)["pass_ms"].as_array() : nullptr;
    if (!target || !unknown_key(*target, {"pass_ms"}).empty() || !points || points->empty()) {
      return fail("[target] takes pass_ms alone: a list of [rows, milliseconds]");
    }
    for (const toml::node& point : *points) {
      const toml::array* pair = point.as_array();
      const bool two = pair && pair->size() == 2;
      // 0 is outside both ranges.
      const double rows = two ? (*pair)[0].value_or(0.0) : 0.0;
      const double ms = two ? (*pair)[1].value_or(0.0) : 0.0;
      const double least = profile.pass_points_.empty() ? 1 : profile.pass_points_.back().rows + 1;
      if (!(rows >= least && rows <= kRowsMax) || !(ms > 0 && ms <= kMillisecondsMax)) {
        return fail(
            "target.pass_ms: each point is [rows, milliseconds], rows from 1 and ascending, "
            "milliseconds above 0");
      }
      profile.pass_points_.push_back({.rows = rows, .milliseconds = ms});
    }
  }

  const auto read_steps = [&](const char* section, Steps& steps) -> Result<void> {
    const toml::node* node = root.get(section);
    if (!node) return {};
    const toml::table* table = node->as_table();
    const toml::table* step_ms = table ? (*table)["step_ms"].as_table() : nullptr;
    if (!table || !step_ms || !unknown_key(*table, {"step_ms"}).empty()) {
      return fail("[" + std::string(section) + ".step_ms] lists milliseconds by drafter");
    }
    for (const auto& [drafter, value] : *step_ms) {
      const double ms = value.value_or(0.0);
      if (!(ms > 0 && ms <= kMillisecondsMax)) {
        return fail(std::string(section) + ".step_ms." + std::string(drafter.str()) +
                    ": give milliseconds above 0");
      }
      steps[std::string(drafter.str())] = ms;
    }
    return {};
  };
  if (auto read = read_steps("draft", profile.device_steps_); !read) return read.error();
  if (auto read = read_steps("beside_target", profile.beside_target_steps_); !read) {
    return read.error();
  }
  if (const toml::node* node = root.get("activation_bytes")) {
    const toml::table* table = node->as_table();
    if (!table) return fail("[activation_bytes] lists bytes per token by drafter");
    for (const auto& [drafter, value] : *table) {
      const std::int64_t bytes = value.value_or(std::int64_t{0});
      if (bytes < 1 || bytes > kActivationBytesMax) {
        return fail("activation_bytes." + std::string(drafter.str()) + ": give 1 to " +
                    std::to_string(kActivationBytesMax));
      }
      profile.activation_bytes_[std::string(drafter.str())] = static_cast<std::uint32_t>(bytes);
    }
  }
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
