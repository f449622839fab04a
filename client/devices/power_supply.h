#pragma once

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

namespace edgedraft {

// What the system tells of its power (Linux: /sys/class). Elsewhere it tells nothing.
class PowerSupply {
 public:
  explicit PowerSupply(std::filesystem::path sysfs_class = "/sys/class")
      : root_(std::move(sysfs_class)) {}

  // A battery is discharging; false where the system tells of none.
  bool on_battery() const;
  // What each processor has taken since a time of no account. It begins anew at `range`.
  struct Counter {
    double joules;
    double range;
  };
  // One per processor; none if the system does not tell, or not everybody.
  std::vector<Counter> energy() const;

 private:
  std::filesystem::path root_;
};

// What the processors of the machine take from its begin on, for whatever runs on them.
class EnergyMeter {
 public:
  explicit EnergyMeter(PowerSupply supply) : supply_(std::move(supply)) { begin(); }

  void begin() { go_on_from(0.0); }
  // Counts on from what was taken before a pause; what was taken during it does not count.
  void go_on_from(double joules) {
    earlier_ = joules;
    begun_ = supply_.energy();
  }
  // Nothing if the system does not tell.
  std::optional<double> joules() const;

 private:
  PowerSupply supply_;
  double earlier_ = 0.0;
  std::vector<PowerSupply::Counter> begun_;
};

}  // namespace edgedraft
