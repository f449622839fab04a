#include "client/devices/power_supply.h"

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>

namespace edgedraft::client {
namespace {

namespace fs = std::filesystem;

template <class Value>
std::optional<Value> read(const fs::path& file) {
  std::ifstream in(file);
  Value value{};
  if (in >> value) return value;
  return std::nullopt;
}

}  // namespace

bool PowerSupply::on_battery() const {
  std::error_code error;
  for (const auto& supply : fs::directory_iterator(root_ / "power_supply", error)) {
    if (read<std::string>(supply.path() / "type") != "Battery") continue;
    // Skip batteries of peripherals, such as a mouse.
    if (read<std::string>(supply.path() / "scope") == "Device") continue;
    if (read<std::string>(supply.path() / "status") == "Discharging") return true;
  }
  return false;
}

std::vector<PowerSupply::Counter> PowerSupply::energy() const {
  constexpr double kMicro = 1e-6;
  std::vector<Counter> counters;
  for (std::uint32_t i = 0;; ++i) {
    const auto zone = root_ / "powercap" / ("intel-rapl:" + std::to_string(i));
    const auto name = read<std::string>(zone / "name");
    if (!name) return counters;
    // Other zones include the processors: "psys" is the whole machine.
    if (!name->starts_with("package-")) continue;
    const auto taken = read<std::uint64_t>(zone / "energy_uj");
    const auto range = read<std::uint64_t>(zone / "max_energy_range_uj");
    if (!taken || !range) return {};
    counters.push_back({.joules = kMicro * static_cast<double>(*taken),
                        .range = kMicro * static_cast<double>(*range)});
  }
}

std::optional<double> EnergyMeter::joules() const {
  const auto now = supply_.energy();
  if (now.empty() || now.size() != begun_.size()) return std::nullopt;
  double sum = earlier_;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const double taken = now[i].joules - begun_[i].joules;
    sum += taken >= 0.0 ? taken : taken + now[i].range;
  }
  return sum;
}

}  // namespace edgedraft::client
