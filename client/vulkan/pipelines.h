#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <utility>

#include "client/vulkan/device.h"
#include "shaders/embedded.h"

namespace edgedraft::client::vulkan {

// A shader and its specialization constants 0, 1, ...; unused ones are 0.
struct PipelineKey {
  shaders::Shader shader;
  std::array<std::uint32_t, 8> constants{};

  auto operator<=>(const PipelineKey&) const = default;
};

// Specialization constant of a matmul's workgroup size.
inline constexpr std::size_t kWorkgroupConstant = 4;

using SetLayout = Owned<VkDescriptorSetLayout, &Functions::DestroyDescriptorSetLayout>;
using Layout = Owned<VkPipelineLayout, &Functions::DestroyPipelineLayout>;
using Cache = Owned<VkPipelineCache, &Functions::DestroyPipelineCache>;

struct Pipeline {
  shaders::Shader shader;
  Owned<VkPipeline, &Functions::DestroyPipeline> pipeline;
};

// Compute pipelines, created on first use from the shader builds for the features in use. All have
// one layout: binding 0 for the call buffer, kBindingsMax storage buffers, 128 bytes of push
// constants.
//
// Compiled pipelines are kept in a file of the cache directory, and used if the file is intact and
// of this device and driver. Otherwise it is replaced; a file that cannot be written is ignored.
class Pipelines {
 public:
  static constexpr std::uint32_t kPushBytesMax = 128;

  Pipelines(Device& device, const std::filesystem::path& cache_directory);
  ~Pipelines();

  // Valid for the life of this. Throws DeviceError.
  const Pipeline& get(const PipelineKey& key);
  VkDescriptorSetLayout set_layout() const { return set_layout_.get(); }
  VkPipelineLayout layout() const { return layout_.get(); }

 private:
  VkShaderModule module(shaders::Shader shader, const shaders::Build& build);
  void save() noexcept;

  Device& device_;
  shaders::Features features_;
  std::filesystem::path file_;  // empty: no cache
  bool has_new_ = false;
  SetLayout set_layout_;
  Layout layout_;
  Cache cache_;
  using Module = Owned<VkShaderModule, &Functions::DestroyShaderModule>;
  std::map<std::pair<shaders::Shader, shaders::Features>, Module> modules_;
  std::map<PipelineKey, Pipeline> pipelines_;
};

}  // namespace edgedraft::client::vulkan
