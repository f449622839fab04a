#include <memory>
#include <optional>
#include <utility>

#include "tests/vulkan/hanging_device.h"
#include "tests/vulkan/vulkan_support.h"

namespace edgedraft::testing {
namespace {

// Too large for a shared block if allocated first; its memory is freed with it if there are other
// blocks.
OwnedMatrix matrix_in_its_own_block(Backend& backend) {
  return {backend, 1100, 4000};
}

class VulkanHangTest : public HangingDeviceTest {
 protected:
  void SetUp() override {
    HangingDeviceTest::SetUp();
    if (IsSkipped()) return;
    auto opened = open_hanging_device();
    ASSERT_TRUE(opened) << opened.error().message;
    backend_ = std::move(*opened);
  }

  std::unique_ptr<MeasuredBackend> backend_;
};

// A later request to the device, from another conversation for example, is refused at once and so
// moves to the CPU.
TEST_F(VulkanHangTest, TimesOutOnceAndShutsDownWithoutWaiting) {
  {
    const OwnedMatrix alone = matrix_in_its_own_block(*backend_);
    const OwnedMatrix x = matrix_of(*backend_, 2, 64, random_floats(1, 128));
    hang.waits_before = 0;
    EXPECT_THROW(values_of(*backend_, x.all()), DeviceError);
    EXPECT_EQ(hang.timeouts, 1);
    EXPECT_THROW(values_of(*backend_, x.all()), DeviceError);
    EXPECT_THROW(matrix_of(*backend_, 700, 100, Floats(70'000, 1.0f)), DeviceError);
  }
  backend_.reset();
  EXPECT_EQ(hang.timeouts, 1);
}

// Freeing memory also waits.
TEST_F(VulkanHangTest, IsDetectedWhenMemoryIsFreed) {
  {
    std::optional<OwnedMatrix> alone = matrix_in_its_own_block(*backend_);
    const OwnedMatrix x = matrix_of(*backend_, 2, 64, random_floats(1, 128));
    backend_->gate({.gate = alone->all(),
                    .up = alone->all(),
                    .y = alone->all(),
                    .activation = Activation::silu});
    hang.waits_before = 0;
    alone.reset();
    EXPECT_EQ(hang.timeouts, 1);
    EXPECT_THROW(values_of(*backend_, x.all()), DeviceError);
  }
  backend_.reset();
  EXPECT_EQ(hang.timeouts, 1);
}

// A part of a long text produces no results that are read.
TEST_F(VulkanHangTest, IsDetectedByWaitWithoutResults) {
  {
    const OwnedMatrix x = matrix_of(*backend_, 2, 64, random_floats(1, 128));
    hang.waits_before = 0;
    EXPECT_THROW(backend_->wait(), DeviceError);
    EXPECT_THROW(backend_->read(x.all().row_range(0, 0), {}), DeviceError);
  }
  backend_.reset();
  EXPECT_EQ(hang.timeouts, 1);
}

TEST_F(VulkanHangTest, IsDetectedWhenTimesAreTaken) {
  if (!backend_->device().timestamps) GTEST_SKIP() << "the device has no timestamps";
  backend_->set_timing(MeasuredBackend::Timing::whole);
  {
    const OwnedMatrix x = matrix_of(*backend_, 2, 64, random_floats(1, 128));
    backend_->set_timing(MeasuredBackend::Timing::none);  // submits the gathered work
    hang.waits_before = 0;
    EXPECT_THROW(backend_->take_times(), DeviceError);
  }
  backend_.reset();
  EXPECT_EQ(hang.timeouts, 1);
}

}  // namespace
}  // namespace edgedraft::testing
