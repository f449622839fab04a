#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/error.h"

namespace edgedraft {

// Prefix of the line that edgedraft-lab's server writes to standard error per pass that exceeds its
// pace.
inline constexpr std::string_view kLatePass = "late pass: ";

// Speeds of named hardware for named models, for slowing a small model to a large one's pace
// (device profiles in docs/experiments.md). With --pace-profile, edgedraft-lab's server uses the
// target's part, its client the drafter's.
class PaceProfile {
 public:
  // Location of a drafter: on the device, or beside the target.
  enum class Place : std::uint8_t { device, beside_target };

  PaceProfile() = default;  // no pacing

  // Errors    io; usage naming the file, the key and the allowed values
  static Result<PaceProfile> read(const std::filesystem::path& file);

  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }

  // Time of a target pass over `rows` rows: linear between the profile's points, the first point's
  // time below them, the last slope beyond them. Zero if the profile has none.
  Duration target_pass(std::uint32_t rows) const;
  bool paces_target() const { return !pass_points_.empty(); }

  // Time per step of that drafter: its own entry ("kind-variant"), else that of the name up to a
  // '-' ("kind"), else "default". Zero if the profile has none.
  Duration draft_step(const std::string& drafter, Place place) const;
  // Activation bytes per token of the named model's drafter, by the same rule; a server pads a
  // smaller model's to this size. Zero if the profile has none.
  std::uint32_t activation_bytes(const std::string& drafter) const;
  bool pads_activations() const { return !activation_bytes_.empty(); }

  // Checks that the profile covers a drafter in use. Without an entry, the drafter would silently
  // run unpaced, or its activations unpadded.
  // Errors    usage naming the profile, the table and the drafter
  Result<void> check_paces(const std::string& drafter, Place place) const;
  Result<void> check_pads(const std::string& drafter) const;

  bool paces_drafter() const { return !device_steps_.empty() || !beside_target_steps_.empty(); }

 private:
  struct PassPoint {
    double rows;
    double milliseconds;
  };
  using Steps = std::map<std::string, double>;  // milliseconds

  std::string name_;
  std::string description_;
  std::vector<PassPoint> pass_points_;  // by rows, ascending
  Steps device_steps_;
  Steps beside_target_steps_;
  std::map<std::string, std::uint32_t> activation_bytes_;
};

}  // namespace edgedraft
