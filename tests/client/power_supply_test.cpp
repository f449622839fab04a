#include "client/devices/power_supply.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_directory.h"

namespace edgedraft::client {
namespace {

class PowerSupplyTest : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    const auto path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }

  void write_zone(const std::string& number, const std::string& name,
                  const std::string& microjoules) const {
    const std::string zone = "powercap/intel-rapl:" + number;
    write(zone + "/name", name);
    write(zone + "/energy_uj", microjoules);
    write(zone + "/max_energy_range_uj", "1000000000");
  }

  test::TemporaryDirectory directory_;
  const std::filesystem::path root_ = directory_ / "class";
  const PowerSupply power_{root_};
};

TEST_F(PowerSupplyTest, ReportsNoBatteryIfSystemFilesAreMissing) {
  EXPECT_FALSE(power_.on_battery());
  EXPECT_TRUE(power_.energy().empty());
  EXPECT_FALSE(EnergyMeter(power_).joules());
}

TEST_F(PowerSupplyTest, OnBatteryWhileOwnBatteryDischarges) {
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

TEST_F(PowerSupplyTest, SumsEnergyOfProcessorsAcrossCounterOverflow) {
  write_zone("0", "package-0", "900000000");
  write_zone("1", "package-1", "900000000");
  const EnergyMeter meter(power_);
  EXPECT_DOUBLE_EQ(meter.joules().value(), 0.0);
  write("powercap/intel-rapl:0/energy_uj", "905000000");
  EXPECT_DOUBLE_EQ(meter.joules().value(), 5.0);
  // One counter wraps, the other does not.
  write("powercap/intel-rapl:0/energy_uj", "1000000");
  write("powercap/intel-rapl:1/energy_uj", "902000000");
  EXPECT_DOUBLE_EQ(meter.joules().value(), 103.0);
}

// Laptops often have a counter of the whole machine, which includes the processor's. A processor's
// counter includes those of its cores.
TEST_F(PowerSupplyTest, DoesNotCountNestedCountersTwice) {
  write_zone("0", "psys", "100000000");
  write_zone("1", "package-0", "100000000");
  write_zone("1:0", "core", "100000000");
  const EnergyMeter meter(power_);
  write_zone("0", "psys", "120000000");
  write_zone("1", "package-0", "105000000");
  write_zone("1:0", "core", "103000000");
  EXPECT_DOUBLE_EQ(meter.joules().value(), 5.0);
}

TEST_F(PowerSupplyTest, ExcludesEnergyOfPauses) {
  write_zone("0", "package-0", "0");
  EnergyMeter meter(power_);
  write_zone("0", "package-0", "5000000");
  const double before = meter.joules().value();
  write_zone("0", "package-0", "25000000");
  meter.go_on_from(before);
  write_zone("0", "package-0", "27000000");
  EXPECT_DOUBLE_EQ(meter.joules().value(), 7.0);
  meter.begin();
  EXPECT_DOUBLE_EQ(meter.joules().value(), 0.0);
}

}  // namespace
}  // namespace edgedraft::client
