#include <fstream>

#include "client/vulkan/pipeline_cache_file.h"
#include "tests/support/temporary_directory.h"
#include "tests/vulkan/vulkan_support.h"

namespace edgedraft::testing {
namespace {

class PipelineCacheTest : public VulkanTest {
 protected:
  // Compiles a pipeline and saves the cache.
  void use_backend() {
    const auto backend = open_with({}, {.cache_directory = directory_.path() / "cache"});
    ASSERT_TRUE(backend) << backend.error().message;
    const OwnedMatrix x = matrix_of(**backend, 1, 4, Floats{1, 2, 3, 4});
    (*backend)->gate(
        {.gate = x.all(), .up = x.all(), .y = x.all(), .activation = Activation::silu});
    values_of(**backend, x.all());
  }
  std::filesystem::path file() {
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path() / "cache")) {
      return entry.path();
    }
    return {};
  }
  std::string content() { return test::file_text(file()); }
  void set_content(const std::string& bytes) {
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << bytes;
  }

  test::TemporaryDirectory directory_;
};

TEST_F(PipelineCacheTest, KeepsCompiledPipelines) {
  use_backend();
  ASSERT_FALSE(file().empty());
  EXPECT_GT(content().size(), 32u);
  use_backend();
  EXPECT_GT(content().size(), 32u);
}

TEST_F(PipelineCacheTest, ReplacesDamagedOrForeignFile) {
  use_backend();
  const std::string whole = content();
  std::string flipped = whole;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  for (const std::string& damaged :
       {std::string(), whole.substr(0, 20), whole.substr(0, whole.size() - 1), flipped,
        std::string(1000, 'x')}) {
    set_content(damaged);
    use_backend();
    EXPECT_EQ(content().size(), whole.size());
  }
}

TEST_F(PipelineCacheTest, WorksWithoutWritableDirectory) {
  std::ofstream(directory_.path() / "cache") << "a file where the directory should be";
  use_backend();
}

// The digest is right, but the header is another device's.
TEST_F(PipelineCacheTest, AcceptsOnlyDataOfSameDeviceAndDriver) {
  VkPhysicalDeviceProperties device{.vendorID = 1, .deviceID = 2};
  VkPipelineCacheHeaderVersionOne header{.headerSize = sizeof header,
                                         .headerVersion = VK_PIPELINE_CACHE_HEADER_VERSION_ONE,
                                         .vendorID = 1,
                                         .deviceID = 2};
  const std::filesystem::path file = directory_.path() / "one";
  vulkan::write_pipeline_cache(file, std::as_bytes(std::span(&header, 1)));
  EXPECT_EQ(vulkan::read_pipeline_cache(file, device).size(), sizeof header);
  device.deviceID = 3;
  EXPECT_TRUE(vulkan::read_pipeline_cache(file, device).empty());
  device.deviceID = 2;
  device.pipelineCacheUUID[7] = 1;  // another driver
  EXPECT_TRUE(vulkan::read_pipeline_cache(file, device).empty());
  header.headerSize = 1000;
  vulkan::write_pipeline_cache(file, std::as_bytes(std::span(&header, 1)));
  device.pipelineCacheUUID[7] = 0;
  EXPECT_TRUE(vulkan::read_pipeline_cache(file, device).empty());
}

}  // namespace
}  // namespace edgedraft::testing
