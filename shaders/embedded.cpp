#include "shaders/embedded.h"

namespace edgedraft::shaders {
namespace {

constexpr std::uint32_t kArgmax[] =
#include "argmax.spv.inc"
    ;
constexpr std::uint32_t kAttention[] =
#include "attention.spv.inc"
    ;
constexpr std::uint32_t kCompact[] =
#include "compact.spv.inc"
    ;
constexpr std::uint32_t kEmbed[] =
#include "embed.spv.inc"
    ;
constexpr std::uint32_t kGatherLayers[] =
#include "gather_layers.spv.inc"
    ;
constexpr std::uint32_t kGroupAttention[] =
#include "group_attention.spv.inc"
    ;
constexpr std::uint32_t kGroupMean[] =
#include "group_mean.spv.inc"
    ;
constexpr std::uint32_t kMatmul[] =
#include "matmul.spv.inc"
    ;
constexpr std::uint32_t kRmsNorm[] =
#include "rms_norm.spv.inc"
    ;
constexpr std::uint32_t kRope[] =
#include "rope.spv.inc"
    ;
constexpr std::uint32_t kStore[] =
#include "store.spv.inc"
    ;
constexpr std::uint32_t kSwiglu[] =
#include "swiglu.spv.inc"
    ;
constexpr std::uint32_t kTopK[] =
#include "top_k.spv.inc"
    ;

struct Embedded {
  const char* name;
  std::span<const std::uint32_t> words;
};

// In the order of Shader.
constexpr Embedded kEmbedded[] = {
    {"argmax", kArgmax},
    {"attention", kAttention},
    {"compact", kCompact},
    {"embed", kEmbed},
    {"gather_layers", kGatherLayers},
    {"group_attention", kGroupAttention},
    {"group_mean", kGroupMean},
    {"matmul", kMatmul},
    {"rms_norm", kRmsNorm},
    {"rope", kRope},
    {"store", kStore},
    {"swiglu", kSwiglu},
    {"top_k", kTopK},
};
static_assert(std::size(kEmbedded) == kShaderCount);

}  // namespace

const char* name(Shader shader) {
  return kEmbedded[static_cast<std::size_t>(shader)].name;
}

std::span<const std::uint32_t> spirv(Shader shader) {
  return kEmbedded[static_cast<std::size_t>(shader)].words;
}

}  // namespace edgedraft::shaders
