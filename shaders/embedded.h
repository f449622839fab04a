#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace edgedraft::shaders {

// The operations that there are shaders for, by their file's name.
enum class Shader : std::uint8_t {
  argmax,
  attention,
  combine,
  compact,
  embed,
  gather_layers,
  group_attention,
  group_mean,
  int8_matmul,
  matmul,
  quantize,
  rms_norm,
  rope,
  store,
  swiglu,
  top_k,
};
inline constexpr std::size_t kShaderCount = 16;

// Optional features of a device that a build of a shader needs, a bit each.
using Features = std::uint8_t;
inline constexpr Features kNarrowStorage = 1;  // storage buffers of 8- and 16-bit numbers
inline constexpr Features kFloat16 = 2;        // arithmetic in half precision
inline constexpr Features kSubgroups = 4;      // full subgroups, whose lanes exchange numbers
inline constexpr Features kAllFeatures = 7;

struct Build {
  Features features;  // those it needs
  std::span<const std::uint32_t> words;
};

// The file's name without its ending.
const char* name(Shader shader);
// The build that uses all of `features` that the shader can use.
Build spirv(Shader shader, Features features);

}  // namespace edgedraft::shaders
