#include "client/devices/power_supply.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_directory.h"

namespace edgedraft {
namespace {

class PowerSupplyTest : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    const auto path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }

  test::TemporaryDirectory directory_;
  const std::filesystem::path root_ = directory_ / "class";
  const PowerSupply power_{root_};
};

TEST_F(PowerSupplyTest, ASystemThatTellsNothingHasNoBattery) {
  EXPECT_FALSE(power_.on_battery());
  EXPECT_TRUE(power_.energy().empty());
  EXPECT_FALSE(EnergyMeter(power_).joules());
}

TEST_F(PowerSupplyTest, OnBatteryWhileItsOwnBatteryIsDischarging) {
  write("power_supply/AC/type", "Mains");
  write("power_supply/BAT0/type", "Battery");
  write("power_supply/BAT0/status", "Charging");
  write("power_supply/mouse/type", "Battery");
  write("power_supply/mouse/scope", "Device");
  write("power_supply/mouse/status", "Discharging");
  EXPECT_FALSE(power_.on_battery());
  write("power_supply/BAT0/status", "Discharging");
  EXPECT_TRUE(power_.on_battery());
}

TEST_F(PowerSupplyTest, EnergyIsThatOfAllProcessorsAndOutlivesAnOverflow) {
  for (const char* package : {"0", "1"}) {
    const std::string zone = std::string("powercap/intel-rapl:") + package;
    write(zone + "/energy_uj", "900000000");
    write(zone + "/max_energy_range_uj", "1000000000");
  }
  const EnergyMeter meter(power_);
  EXPECT_DOUBLE_EQ(meter.joules().value(), 0.0);
  write("powercap/intel-rapl:0/energy_uj", "905000000");
  EXPECT_DOUBLE_EQ(meter.joules().value(), 5.0);
  // One begins anew, the other does not.
  write("powercap/intel-rapl:0/energy_uj", "1000000");
  write("powercap/intel-rapl:1/energy_uj", "902000000");
  EXPECT_DOUBLE_EQ(meter.joules().value(), 103.0);
}

}  // namespace
}  // namespace edgedraft
