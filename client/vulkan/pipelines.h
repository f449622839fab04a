#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <utility>

#include "client/vulkan/device.h"
#include "shaders/embedded.h"

namespace edgedraft::vulkan {

// A shader with its specialization constants 0, 1, ...; unused ones are 0.
struct PipelineKey {
  shaders::Shader shader;
  std::array<std::uint32_t, 7> constants{};

  auto operator<=>(const PipelineKey&) const = default;
};

// The one that is the size of a product's workgroup.
inline constexpr std::size_t kWorkgroupConstant = 4;

using SetLayout = Owned<VkDescriptorSetLayout, &Functions::DestroyDescriptorSetLayout>;
using Layout = Owned<VkPipelineLayout, &Functions::DestroyPipelineLayout>;
using Cache = Owned<VkPipelineCache, &Functions::DestroyPipelineCache>;

struct Pipeline {
  shaders::Shader shader;
  Owned<VkPipeline, &Functions::DestroyPipeline> pipeline;
};

// Compute pipelines, made when they are first asked for, from the builds of the shaders for the
// features in use. All have one layout: binding 0 for what
// the host tells a call, kBindingsMax storage buffers, 128 bytes of push constants.
//
// What the driver compiled is kept in a file of the cache directory. It is used if it was written
// whole, for this very device and driver; a missing or foreign file is replaced, and one that
// cannot be written is done without.
class Pipelines {
 public:
  static constexpr std::uint32_t kPushBytesMax = 128;

  Pipelines(Device& device, const std::filesystem::path& cache_directory);
  ~Pipelines();

  // Stays valid for the life of this. Throws DeviceError.
  const Pipeline& get(const PipelineKey& key);
  VkDescriptorSetLayout set_layout() const { return set_layout_.get(); }
  VkPipelineLayout layout() const { return layout_.get(); }

 private:
  VkShaderModule module(shaders::Shader shader, const shaders::Build& build);
  void save() noexcept;

  Device& device_;
  shaders::Features features_;
  std::filesystem::path file_;  // empty: none
  bool has_new_ = false;
  SetLayout set_layout_;
  Layout layout_;
  Cache cache_;
  using Module = Owned<VkShaderModule, &Functions::DestroyShaderModule>;
  std::map<std::pair<shaders::Shader, shaders::Features>, Module> modules_;
  std::map<PipelineKey, Pipeline> pipelines_;
};

}  // namespace edgedraft::vulkan
