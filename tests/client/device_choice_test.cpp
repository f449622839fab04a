#include "client/devices/device_choice.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "client/commands/devices.h"

namespace edgedraft::client {
namespace {

using Kind = DeviceRequest::Kind;

ComputeDevice cpu() {
  return {.id = "cpu", .name = "Abacus", .driver = "2 threads", .kind = "cpu"};
}

ComputeDevice gpu(std::uint32_t index, const std::string& kind, const std::string& unusable = "") {
  return {.id = "vulkan:" + std::to_string(index),
          .name = "Gpu" + std::to_string(index),
          .driver = "1.0",
          .kind = kind,
          .memory_bytes = std::uint64_t{4} << 30,
          .features = {"int8"},
          .unusable = unusable,
          .vulkan_index = index};
}

// A fake stop-watch with fixed answers: seconds per device, or an error.
class Watch {
 public:
  Watch& takes(const std::string& id, double seconds) {
    timings_.insert_or_assign(id, StepTiming{.seconds = seconds, .bytes_per_second = 1e9});
    return *this;
  }
  MeasureDevice measure() {
    return [this](const ComputeDevice& device) -> Result<StepTiming> {
      measured.push_back(device.id);
      const auto found = timings_.find(device.id);
      if (found == timings_.end()) return Error{Errc::io, "it smokes"};
      return found->second;
    };
  }
  std::vector<std::string> measured;

 private:
  std::map<std::string, StepTiming> timings_;
};

void expect_choice(const Result<DeviceChoice>& choice, const std::string& id,
                   const std::string& named) {
  ASSERT_TRUE(choice) << choice.error().message;
  EXPECT_EQ(choice->device.id, id);
  EXPECT_NE(choice->reason.find(named), std::string::npos) << choice->reason;
}

TEST(DeviceChoiceTest, AutoPicksFastestAndReportsOtherTimes) {
  Watch watch;
  watch.takes("cpu", 0.010).takes("vulkan:0", 0.004).takes("vulkan:1", 0.002);
  const std::vector devices{cpu(), gpu(0, "integrated"), gpu(1, "discrete")};
  const auto choice = choose_device({}, devices, watch.measure());
  expect_choice(choice, "vulkan:1", "2.00 ms");
  expect_choice(choice, "vulkan:1", "cpu takes 10.00 ms");
  EXPECT_FALSE(choice->is_second_best);
  watch.takes("cpu", 0.001);
  expect_choice(choose_device({}, devices, watch.measure()), "cpu", "vulkan:0 takes 4.00 ms");
}

TEST(DeviceChoiceTest, AutoMeasuresNothingWithoutAlternatives) {
  Watch watch;
  expect_choice(choose_device({}, {cpu()}, watch.measure()), "cpu", "no Vulkan device");
  expect_choice(choose_device({}, {cpu(), gpu(0, "discrete", "too few bindings")}, watch.measure()),
                "cpu", "too few bindings");
  expect_choice(choose_device({}, {cpu(), gpu(0, "software")}, watch.measure()), "cpu",
                "--device vulkan:0");
  EXPECT_TRUE(watch.measured.empty());
}

TEST(DeviceChoiceTest, AutoNeverPicksSoftwareRasteriser) {
  Watch watch;
  watch.takes("cpu", 1.0).takes("vulkan:0", 0.001).takes("vulkan:1", 0.5);
  const std::vector devices{cpu(), gpu(0, "software"), gpu(1, "virtual")};
  expect_choice(choose_device({}, devices, watch.measure()), "vulkan:1", "cpu takes");
  EXPECT_EQ(watch.measured, (std::vector<std::string>{"cpu", "vulkan:1"}));
}

TEST(DeviceChoiceTest, AutoSkipsFailingDevice) {
  Watch watch;
  watch.takes("cpu", 0.010);
  expect_choice(choose_device({}, {cpu(), gpu(0, "discrete")}, watch.measure()), "cpu",
                "it smokes");
}

TEST(DeviceChoiceTest, TakesRequestedDeviceWithoutMeasuring) {
  Watch watch;
  const std::vector devices{cpu(), gpu(0, "software"), gpu(1, "integrated"), gpu(2, "discrete")};
  const auto choose = [&](Kind kind, std::optional<std::uint32_t> index) {
    return choose_device({.kind = kind, .index = index}, devices, watch.measure());
  };
  expect_choice(choose(Kind::cpu, {}), "cpu", "requested");
  expect_choice(choose(Kind::vulkan, 1), "vulkan:1", "requested");
  expect_choice(choose(Kind::vulkan, 0), "vulkan:0", "requested");
  expect_choice(choose(Kind::vulkan, {}), "vulkan:2", "requested");
  EXPECT_TRUE(watch.measured.empty());
  expect_choice(choose_device({.kind = Kind::vulkan}, {cpu(), gpu(0, "software")}, watch.measure()),
                "vulkan:0", "requested");
}

TEST(DeviceChoiceTest, RefusesUnknownIndexAndListsDevices) {
  Watch watch;
  const auto choice = choose_device({.kind = Kind::vulkan, .index = 7}, {cpu(), gpu(0, "discrete")},
                                    watch.measure());
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().code, Errc::usage);
  for (const char* named : {"vulkan:7", "cpu (Abacus)", "vulkan:0 (Gpu0)"}) {
    EXPECT_NE(choice.error().message.find(named), std::string::npos) << choice.error().message;
  }
  const auto none = choose_device({.kind = Kind::vulkan}, {cpu()}, watch.measure());
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("mesa-vulkan-drivers"), std::string::npos);
}

TEST(DeviceChoiceTest, FallsBackToCpuIfDeviceIsUnusable) {
  Watch watch;
  const auto choice =
      choose_device({.kind = Kind::vulkan, .index = 0},
                    {cpu(), gpu(0, "discrete", "it allows 4 storage buffers")}, watch.measure());
  expect_choice(choice, "cpu", "4 storage buffers");
  EXPECT_TRUE(choice->is_second_best);
}

TEST(DeviceListTest, ShowsEveryDeviceAndAutoChoice) {
  Watch watch;
  watch.takes("cpu", 0.010).takes("vulkan:0", 0.0025).takes("vulkan:1", 0.5);
  const DeviceList list = make_device_list(
      {cpu(), gpu(0, "discrete"), gpu(1, "software"), gpu(2, "integrated"), gpu(3, "other", "old")},
      watch.measure());
  EXPECT_EQ(watch.measured, (std::vector<std::string>{"cpu", "vulkan:0", "vulkan:1", "vulkan:2"}))
      << "each device once";
  std::ostringstream out;
  print(list, out);
  for (const char* line :
       {"cpu       Abacus, 2 threads\n", "vulkan:0  Gpu0, 1.0, 4.0 GiB, discrete\n          int8\n",
        "2.50 ms per drafting step, 1.00 GB/s", "500.00 ms", "failed: it smokes",
        "cannot be used: old", "auto selects vulkan:0: 2.50 ms"}) {
    EXPECT_NE(out.str().find(line), std::string::npos) << line << "\nin\n" << out.str();
  }
  const auto json = nlohmann::json::parse(to_json(list));
  ASSERT_EQ(json["devices"].size(), 5u);
  EXPECT_EQ(json["devices"][1]["device"], "vulkan:0");
  EXPECT_EQ(json["devices"][1]["step_seconds"], 0.0025);
  EXPECT_EQ(json["devices"][1]["bytes_per_second"], 1e9);
  EXPECT_EQ(json["devices"][1]["memory_bytes"], std::uint64_t{4} << 30);
  EXPECT_EQ(json["devices"][3]["failure"], "it smokes");
  EXPECT_EQ(json["devices"][3]["step_seconds"], nullptr);
  EXPECT_EQ(json["devices"][4]["unusable"], "old");
  EXPECT_EQ(json["auto"], "vulkan:0");
}

TEST(DeviceListTest, LeavesAutoUndecidedWithoutDrafterUnlessCpuIsAlone) {
  const DeviceList open = make_device_list({cpu(), gpu(0, "discrete")}, std::nullopt);
  EXPECT_FALSE(open.automatic);
  EXPECT_EQ(nlohmann::json::parse(to_json(open))["auto"], nullptr);
  std::ostringstream out;
  print(open, out);
  EXPECT_NE(out.str().find("--bundle"), std::string::npos);
  EXPECT_EQ(make_device_list({cpu()}, std::nullopt).automatic->device.id, "cpu");
}

TEST(DeviceListTest, AlwaysListsCpu) {
  const auto devices = list_compute_devices(3);
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices[0].id, "cpu");
  EXPECT_EQ(devices[0].driver, "3 threads");
  EXPECT_GT(devices[0].memory_bytes, 0u);
  EXPECT_TRUE(make_backend(devices[0], 1));
}

TEST(DeviceListTest, MakesNoBackendForUnusableDevice) {
  const auto backend = make_backend(gpu(0, "discrete", "it is old"), 1);
  ASSERT_FALSE(backend);
  EXPECT_NE(backend.error().message.find("it is old"), std::string::npos);
}

}  // namespace
}  // namespace edgedraft::client
