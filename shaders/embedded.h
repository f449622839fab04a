#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

namespace edgedraft::shaders {

// Shaders by file name, with the optional features each can use. One build per subset of these is
// embedded. CMakeLists.txt reads this list.
#define EDGEDRAFT_SHADERS(SHADER)                   \
  SHADER(argmax, Subgroups)                         \
  SHADER(attention, NarrowStorage, Subgroups)       \
  SHADER(combine)                                   \
  SHADER(compact, NarrowStorage)                    \
  SHADER(convolve)                                  \
  SHADER(delta_divide, Subgroups)                   \
  SHADER(delta_gates)                               \
  SHADER(delta_keep)                                \
  SHADER(delta_rule, Subgroups)                     \
  SHADER(embed, NarrowStorage)                      \
  SHADER(fold_inputs)                               \
  SHADER(gather_layers, NarrowStorage)              \
  SHADER(group_attention, Subgroups)                \
  SHADER(group_mean)                                \
  SHADER(int8_matmul, NarrowStorage, Subgroups)     \
  SHADER(matmul, NarrowStorage, Float16, Subgroups) \
  SHADER(mix)                                       \
  SHADER(quantize)                                  \
  SHADER(rms_norm, Subgroups)                       \
  SHADER(rope)                                      \
  SHADER(route)                                     \
  SHADER(store, NarrowStorage)                      \
  SHADER(gate)                                      \
  SHADER(top_k, Subgroups)                          \
  SHADER(scale)                                     \
  SHADER(soft_cap)

#define EDGEDRAFT_ENUMERATOR(name, ...) name,
enum class Shader : std::uint8_t { EDGEDRAFT_SHADERS(EDGEDRAFT_ENUMERATOR) };
#undef EDGEDRAFT_ENUMERATOR

#define EDGEDRAFT_NAME(name, ...) #name,
inline constexpr const char* kShaderNames[] = {EDGEDRAFT_SHADERS(EDGEDRAFT_NAME)};
#undef EDGEDRAFT_NAME
inline constexpr std::size_t kShaderCount = std::size(kShaderNames);

// Optional device features that a build of a shader needs, one bit each.
using Features = std::uint8_t;
inline constexpr Features kNarrowStorage = 1;  // storage buffers of 8- and 16-bit elements
inline constexpr Features kFloat16 = 2;        // arithmetic in half precision
inline constexpr Features kSubgroups = 4;      // full subgroups with data exchange between lanes
inline constexpr Features kAllFeatures = 7;

struct Build {
  Features features;  // features it needs
  std::span<const std::uint32_t> words;
};

// The file name without extension.
constexpr const char* name(Shader shader) { return kShaderNames[static_cast<std::size_t>(shader)]; }
// The build with all of `features` that the shader can use.
Build spirv(Shader shader, Features features);

}  // namespace edgedraft::shaders
