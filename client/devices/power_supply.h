#pragma once

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

namespace edgedraft::client {

// Power state from the system (Linux: /sys/class); unknown on other systems.
class PowerSupply {
 public:
  explicit PowerSupply(std::filesystem::path sysfs_class = "/sys/class")
      : root_(std::move(sysfs_class)) {}

  // True if a battery is discharging; false if unknown.
  bool on_battery() const;
  // Energy of a processor since an arbitrary time. It wraps at `range`.
  struct Counter {
    double joules;
    double range;
  };
  // One per processor; empty if the system has none or restricts access.
  std::vector<Counter> energy() const;

 private:
  std::filesystem::path root_;
};

// Measures the energy of the machine's processors, for all programs.
class EnergyMeter {
 public:
  explicit EnergyMeter(PowerSupply supply) : supply_(std::move(supply)) { begin(); }

  void begin() { go_on_from(0.0); }
  // Continues from an earlier total; energy used during the pause does not count.
  void go_on_from(double joules) {
    earlier_ = joules;
    begun_ = supply_.energy();
  }
  // Empty if the system has no counters.
  std::optional<double> joules() const;

 private:
  PowerSupply supply_;
  double earlier_ = 0.0;
  std::vector<PowerSupply::Counter> begun_;
};

}  // namespace edgedraft::client
