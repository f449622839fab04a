#include "shaders/embedded.h"

#include <iterator>

namespace edgedraft::shaders {
namespace {

constexpr std::uint32_t kArgmax[] =
#include "argmax.spv.inc"
    ;
constexpr std::uint32_t kArgmaxSubgroups[] =
#include "argmax_subgroups.spv.inc"
    ;
constexpr std::uint32_t kAttention[] =
#include "attention.spv.inc"
    ;
constexpr std::uint32_t kAttentionNarrowStorage[] =
#include "attention_narrow_storage.spv.inc"
    ;
constexpr std::uint32_t kAttentionSubgroups[] =
#include "attention_subgroups.spv.inc"
    ;
constexpr std::uint32_t kAttentionNarrowStorageSubgroups[] =
#include "attention_narrow_storage_subgroups.spv.inc"
    ;
constexpr std::uint32_t kCombine[] =
#include "combine.spv.inc"
    ;
constexpr std::uint32_t kCompact[] =
#include "compact.spv.inc"
    ;
constexpr std::uint32_t kCompactNarrowStorage[] =
#include "compact_narrow_storage.spv.inc"
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
constexpr std::uint32_t kGatherLayersNarrowStorage[] =
#include "gather_layers_narrow_storage.spv.inc"
    ;
constexpr std::uint32_t kGroupAttention[] =
#include "group_attention.spv.inc"
    ;
constexpr std::uint32_t kGroupAttentionSubgroups[] =
#include "group_attention_subgroups.spv.inc"
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
constexpr std::uint32_t kInt8MatmulSubgroups[] =
#include "int8_matmul_subgroups.spv.inc"
    ;
constexpr std::uint32_t kInt8MatmulNarrowStorageSubgroups[] =
#include "int8_matmul_narrow_storage_subgroups.spv.inc"
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
constexpr std::uint32_t kMatmulSubgroups[] =
#include "matmul_subgroups.spv.inc"
    ;
constexpr std::uint32_t kMatmulFloat16Subgroups[] =
#include "matmul_float16_subgroups.spv.inc"
    ;
constexpr std::uint32_t kMatmulNarrowStorageSubgroups[] =
#include "matmul_narrow_storage_subgroups.spv.inc"
    ;
constexpr std::uint32_t kMatmulNarrowStorageFloat16Subgroups[] =
#include "matmul_narrow_storage_float16_subgroups.spv.inc"
    ;
constexpr std::uint32_t kQuantize[] =
#include "quantize.spv.inc"
    ;
constexpr std::uint32_t kRmsNorm[] =
#include "rms_norm.spv.inc"
    ;
constexpr std::uint32_t kRmsNormSubgroups[] =
#include "rms_norm_subgroups.spv.inc"
    ;
constexpr std::uint32_t kRope[] =
#include "rope.spv.inc"
    ;
constexpr std::uint32_t kStore[] =
#include "store.spv.inc"
    ;
constexpr std::uint32_t kStoreNarrowStorage[] =
#include "store_narrow_storage.spv.inc"
    ;
constexpr std::uint32_t kSwiglu[] =
#include "swiglu.spv.inc"
    ;
constexpr std::uint32_t kTopK[] =
#include "top_k.spv.inc"
    ;
constexpr std::uint32_t kTopKSubgroups[] =
#include "top_k_subgroups.spv.inc"
    ;

struct Embedded {
  Shader shader;
  Build build;
};

constexpr Embedded kEmbedded[] = {
    {Shader::argmax, {0, kArgmax}},
    {Shader::argmax, {kSubgroups, kArgmaxSubgroups}},
    {Shader::attention, {0, kAttention}},
    {Shader::attention, {kNarrowStorage, kAttentionNarrowStorage}},
    {Shader::attention, {kSubgroups, kAttentionSubgroups}},
    {Shader::attention, {kNarrowStorage | kSubgroups, kAttentionNarrowStorageSubgroups}},
    {Shader::combine, {0, kCombine}},
    {Shader::compact, {0, kCompact}},
    {Shader::compact, {kNarrowStorage, kCompactNarrowStorage}},
    {Shader::embed, {0, kEmbed}},
    {Shader::embed, {kNarrowStorage, kEmbedNarrowStorage}},
    {Shader::gather_layers, {0, kGatherLayers}},
    {Shader::gather_layers, {kNarrowStorage, kGatherLayersNarrowStorage}},
    {Shader::group_attention, {0, kGroupAttention}},
    {Shader::group_attention, {kSubgroups, kGroupAttentionSubgroups}},
    {Shader::group_mean, {0, kGroupMean}},
    {Shader::int8_matmul, {0, kInt8Matmul}},
    {Shader::int8_matmul, {kNarrowStorage, kInt8MatmulNarrowStorage}},
    {Shader::int8_matmul, {kSubgroups, kInt8MatmulSubgroups}},
    {Shader::int8_matmul, {kNarrowStorage | kSubgroups, kInt8MatmulNarrowStorageSubgroups}},
    {Shader::matmul, {0, kMatmul}},
    {Shader::matmul, {kFloat16, kMatmulFloat16}},
    {Shader::matmul, {kNarrowStorage, kMatmulNarrowStorage}},
    {Shader::matmul, {kNarrowStorage | kFloat16, kMatmulNarrowStorageFloat16}},
    {Shader::matmul, {kSubgroups, kMatmulSubgroups}},
    {Shader::matmul, {kFloat16 | kSubgroups, kMatmulFloat16Subgroups}},
    {Shader::matmul, {kNarrowStorage | kSubgroups, kMatmulNarrowStorageSubgroups}},
    {Shader::matmul,
     {kNarrowStorage | kFloat16 | kSubgroups, kMatmulNarrowStorageFloat16Subgroups}},
    {Shader::quantize, {0, kQuantize}},
    {Shader::rms_norm, {0, kRmsNorm}},
    {Shader::rms_norm, {kSubgroups, kRmsNormSubgroups}},
    {Shader::rope, {0, kRope}},
    {Shader::store, {0, kStore}},
    {Shader::store, {kNarrowStorage, kStoreNarrowStorage}},
    {Shader::swiglu, {0, kSwiglu}},
    {Shader::top_k, {0, kTopK}},
    {Shader::top_k, {kSubgroups, kTopKSubgroups}},
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

Build spirv(Shader shader, Features features) {
  Build best{};
  for (const Embedded& one : kEmbedded) {  // those with more features come later
    const bool is_usable = (one.build.features & ~features) == 0;
    if (one.shader == shader && is_usable) best = one.build;
  }
  return best;
}

}  // namespace edgedraft::shaders
