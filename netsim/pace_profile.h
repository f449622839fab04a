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

// Begins the line that edgedraft-lab's server writes to standard error for each pass that took
// longer than its pace.
inline constexpr std::string_view kLatePass = "late pass: ";

// How fast named hardware runs named models, so that a small model can be slowed to a large one's
// pace: a device profile of docs/experiments.md. edgedraft-lab takes one with --pace-profile: its
// server reads the target's part of it, its client the drafter's.
class PaceProfile {
 public:
  // Where a drafter runs: on the device, or beside the target.
  enum class Place : std::uint8_t { device, beside_target };

  PaceProfile() = default;  // nothing is paced

  // Errors    io; usage naming the file, the key and what it takes
  static Result<PaceProfile> read(const std::filesystem::path& file);

  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }

  // What a target pass over `rows` rows takes: linear between the profile's points, the first one's
  // time below them, the last slope beyond them. Zero if the profile has none.
  Duration target_pass(std::uint32_t rows) const;
  bool paces_target() const { return !pass_points_.empty(); }

  // What one step of that drafter takes: its own entry ("kind-variant"), else that of what its name
  // begins with up to a '-' ("kind"), else "default". Zero if the profile has none of them.
  Duration draft_step(const std::string& drafter, Place place) const;
  // Bytes of activations per token that the named model's drafter takes, by the same rule, to which
  // a server pads those of a smaller one. Zero if the profile has none.
  std::uint32_t activation_bytes(const std::string& drafter) const;
  bool pads_activations() const { return !activation_bytes_.empty(); }

  // Whether the profile says what it has to of a drafter at work: one that lists others, and not
  // this one, would leave it at its own speed, or its activations at their own size, unnoticed.
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
