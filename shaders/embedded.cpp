#include "shaders/embedded.h"

#include <iterator>

namespace edgedraft::shaders {
namespace {

constexpr std::uint32_t kArgmax[] =
#include "argmax.spv.inc"
    ;
constexpr std::uint32_t kAttention[] =
#include "attention.spv.inc"
    ;
constexpr std::uint32_t kCombine[] =
#include "combine.spv.inc"
    ;
constexpr std::uint32_t kCompact[] =
#include "compact.spv.inc"
    ;
constexpr std::uint32_t kEmbed[] =
#include "embed.spv.inc"
    ;
constexpr std::uint32_t kEmbedNarrowStorage[] =
#include "embed_narrow_storage.spv.inc"
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
constexpr std::uint32_t kInt8Matmul[] =
#include "int8_matmul.spv.inc"
    ;
constexpr std::uint32_t kInt8MatmulNarrowStorage[] =
#include "int8_matmul_narrow_storage.spv.inc"
    ;
constexpr std::uint32_t kMatmul[] =
#include "matmul.spv.inc"
    ;
constexpr std::uint32_t kMatmulFloat16[] =
#include "matmul_float16.spv.inc"
    ;
constexpr std::uint32_t kMatmulNarrowStorage[] =
#include "matmul_narrow_storage.spv.inc"
    ;
constexpr std::uint32_t kMatmulNarrowStorageFloat16[] =
#include "matmul_narrow_storage_float16.spv.inc"
    ;
constexpr std::uint32_t kQuantize[] =
#include "quantize.spv.inc"
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
  Shader shader;
  Features features;  // those it was built for
  std::span<const std::uint32_t> words;
};

constexpr Embedded kEmbedded[] = {
    {Shader::argmax, 0, kArgmax},
    {Shader::attention, 0, kAttention},
    {Shader::combine, 0, kCombine},
    {Shader::compact, 0, kCompact},
    {Shader::embed, 0, kEmbed},
    {Shader::embed, kNarrowStorage, kEmbedNarrowStorage},
    {Shader::gather_layers, 0, kGatherLayers},
    {Shader::group_attention, 0, kGroupAttention},
    {Shader::group_mean, 0, kGroupMean},
    {Shader::int8_matmul, 0, kInt8Matmul},
    {Shader::int8_matmul, kNarrowStorage, kInt8MatmulNarrowStorage},
    {Shader::matmul, 0, kMatmul},
    {Shader::matmul, kFloat16, kMatmulFloat16},
    {Shader::matmul, kNarrowStorage, kMatmulNarrowStorage},
    {Shader::matmul, kNarrowStorage | kFloat16, kMatmulNarrowStorageFloat16},
    {Shader::quantize, 0, kQuantize},
    {Shader::rms_norm, 0, kRmsNorm},
    {Shader::rope, 0, kRope},
    {Shader::store, 0, kStore},
    {Shader::swiglu, 0, kSwiglu},
    {Shader::top_k, 0, kTopK},
};

// In the order of Shader.
constexpr const char* kNames[] = {
    "argmax",      "attention",     "combine",         "compact",
    "embed",       "gather_layers", "group_attention", "group_mean",
    "int8_matmul", "matmul",        "quantize",        "rms_norm",
    "rope",        "store",         "swiglu",          "top_k",
};
static_assert(std::size(kNames) == kShaderCount);

}  // namespace

const char* name(Shader shader) {
  return kNames[static_cast<std::size_t>(shader)];
}

std::span<const std::uint32_t> spirv(Shader shader, Features features) {
  std::span<const std::uint32_t> words;
  for (const Embedded& build : kEmbedded) {  // those with more features come later
    const bool is_usable = (build.features & ~features) == 0;
    if (build.shader == shader && is_usable) words = build.words;
  }
  return words;
}

}  // namespace edgedraft::shaders
