#include "client/vulkan/pipelines.h"

#include "client/vulkan/pipeline_cache_file.h"
#include "shaders/params.h"

namespace edgedraft::client::vulkan {
namespace {

// Layout of the descriptor set of each dispatch.
SetLayout make_set_layout(Device& device) {
  std::array<VkDescriptorSetLayoutBinding, 1 + shaders::kBindingsMax> bindings{};
  for (std::uint32_t i = 0; i < bindings.size(); ++i) {
    bindings[i] = {.binding = i,
                   .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                   .descriptorCount = 1,
                   .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
  }
  const VkDescriptorSetLayoutCreateInfo info{
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
      .bindingCount = static_cast<std::uint32_t>(bindings.size()),
      .pBindings = bindings.data()};
  return {device.functions(), device.handle(), &Functions::CreateDescriptorSetLayout, info,
          "create a descriptor layout"};
}

Layout make_layout(Device& device, VkDescriptorSetLayout set) {
  const VkPushConstantRange push{
      .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .offset = 0, .size = Pipelines::kPushBytesMax};
  const VkPipelineLayoutCreateInfo info{.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                        .setLayoutCount = 1,
                                        .pSetLayouts = &set,
                                        .pushConstantRangeCount = 1,
                                        .pPushConstantRanges = &push};
  return {device.functions(), device.handle(), &Functions::CreatePipelineLayout, info,
          "create a pipeline layout"};
}

Cache make_cache(Device& device, ByteView data) {
  const VkPipelineCacheCreateInfo info{.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                       .initialDataSize = data.size(),
                                       .pInitialData = data.data()};
  return {device.functions(), device.handle(), &Functions::CreatePipelineCache, info,
          "create a pipeline cache"};
}

}  // namespace

Pipelines::Pipelines(Device& device, const std::filesystem::path& cache_directory)
    : device_(device),
      features_(static_cast<shaders::Features>(
          (device.features().narrow_storage ? shaders::kNarrowStorage : 0) |
          (device.features().float16 ? shaders::kFloat16 : 0) |
          (device.features().subgroups ? shaders::kSubgroups : 0))) {
  set_layout_ = make_set_layout(device);
  layout_ = make_layout(device, set_layout_.get());
  Bytes data;
  if (!cache_directory.empty()) {
    file_ = cache_directory / pipeline_cache_name(device.properties());
    data = read_pipeline_cache(file_, device.properties());
  }
  cache_ = make_cache(device, data);
}

Pipelines::~Pipelines() {
  save();
}

VkShaderModule Pipelines::module(shaders::Shader shader, const shaders::Build& build) {
  Module& module = modules_[{shader, build.features}];
  if (module.get() == VK_NULL_HANDLE) {
    const VkShaderModuleCreateInfo info{.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                        .codeSize = build.words.size_bytes(),
                                        .pCode = build.words.data()};
    module = {device_.functions(), device_.handle(), &Functions::CreateShaderModule, info,
              "create a shader module"};
  }
  return module.get();
}

const Pipeline& Pipelines::get(const PipelineKey& key) {
  const auto found = pipelines_.find(key);
  if (found != pipelines_.end()) return found->second;
  std::array<VkSpecializationMapEntry, std::tuple_size_v<decltype(key.constants)>> entries{};
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    entries[i] = {.constantID = i, .offset = 4 * i, .size = 4};
  }
  const VkSpecializationInfo specialization{
      .mapEntryCount = static_cast<std::uint32_t>(entries.size()),
      .pMapEntries = entries.data(),
      .dataSize = sizeof(key.constants),
      .pData = key.constants.data()};
  // Only matmuls may have workgroups that are not whole subgroups: on software drivers.
  const bool is_product =
      key.shader == shaders::Shader::matmul || key.shader == shaders::Shader::int8_matmul;
  const bool is_whole =
      !is_product || key.constants[kWorkgroupConstant] % device_.description().subgroup_width == 0;
  const shaders::Build build = shaders::spirv(
      key.shader,
      static_cast<shaders::Features>(is_whole ? features_ : features_ & ~shaders::kSubgroups));
  VkPipelineShaderStageCreateFlags flags = 0;
  if ((build.features & shaders::kSubgroups) != 0) {
    flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  }
  const VkComputePipelineCreateInfo info{
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .flags = flags,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module(key.shader, build),
                .pName = "main",
                .pSpecializationInfo = &specialization},
      .layout = layout_.get()};
  VkPipeline made = VK_NULL_HANDLE;
  check(device_.functions().CreateComputePipelines(device_.handle(), cache_.get(), 1, &info,
                                                   nullptr, &made),
        "compile a shader");
  has_new_ = true;
  return pipelines_
      .emplace(key, Pipeline{.shader = key.shader,
                             .pipeline = {device_.functions(), device_.handle(), made}})
      .first->second;
}

void Pipelines::save() noexcept {
  if (file_.empty() || !has_new_) return;
  try {
    const auto get = device_.functions().GetPipelineCacheData;
    std::size_t bytes = 0;
    if (get(device_.handle(), cache_.get(), &bytes, nullptr) != VK_SUCCESS) return;
    Bytes data(bytes);
    if (get(device_.handle(), cache_.get(), &bytes, data.data()) != VK_SUCCESS) return;
    data.resize(bytes);
    write_pipeline_cache(file_, data);
  } catch (...) {  // without memory, the next start compiles again
  }
}

}  // namespace edgedraft::client::vulkan
