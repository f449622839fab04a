#pragma once

#include <cstdint>
#include <span>

namespace edgedraft::shaders {

// The operations that there are shaders for, by their file's name.
enum class Shader : std::uint8_t {
  argmax,
  attention,
  compact,
  embed,
  gather_layers,
  group_attention,
  group_mean,
  matmul,
  rms_norm,
  rope,
  store,
  swiglu,
  top_k,
};
inline constexpr std::size_t kShaderCount = 13;

// The file's name without its ending.
const char* name(Shader shader);
std::span<const std::uint32_t> spirv(Shader shader);

}  // namespace edgedraft::shaders
