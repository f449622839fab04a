#include <string>

#include "shared/model/families/family.h"

// A line for each family, in the order in which messages list them. The folder of a family defines
// its constant.
#define EDGEDRAFT_FAMILIES(FAMILY) \
  FAMILY(kLlama)                   \
  FAMILY(kMistral3)                \
  FAMILY(kQwen2)                   \
  FAMILY(kQwen3)                   \
  FAMILY(kQwen3Moe)                \
  FAMILY(kQwen35)                  \
  FAMILY(kQwen35Moe)               \
  FAMILY(kGemma3)                  \
  FAMILY(kGemma4)                  \
  FAMILY(kGptOss)                  \
  FAMILY(kPhi3)                    \
  FAMILY(kSmolLm3)                 \
  FAMILY(kLfm2)

namespace edgedraft {

#define EDGEDRAFT_DECLARE(name) extern const Family name;
EDGEDRAFT_FAMILIES(EDGEDRAFT_DECLARE)

namespace {

#define EDGEDRAFT_ADDRESS(name) &name,
constexpr const Family* kFamilies[] = {EDGEDRAFT_FAMILIES(EDGEDRAFT_ADDRESS)};

std::string names_of(std::string_view Family::*name) {
  std::string names;
  for (const Family* family : kFamilies) {
    names += (names.empty() ? "" : ", ") + std::string(family->*name);
  }
  return names;
}

}  // namespace

std::span<const Family* const> families() {
  return kFamilies;
}

Result<const Family*> find_family(std::string_view architecture) {
  for (const Family* family : kFamilies) {
    if (family->architecture == architecture) return family;
  }
  return Error{Errc::unsupported,
               "the architecture '" + std::string(architecture) + "' is not supported. Known are " +
                   names_of(&Family::architecture) + "; use a model of one of these"};
}

Result<const Family*> find_hf_family(std::string_view architecture) {
  std::string names;
  for (const Family* family : kFamilies) {
    for (const std::string_view name : family->hf_architectures) {
      if (name == architecture) return family;
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
  }
  return Error{Errc::unsupported, "the architecture '" + std::string(architecture) +
                                      "' is not supported. Known are " + names};
}

bool is_plain(const DecoderConfig& config) {
  const auto family = find_family(config.architecture);
  return family && (*family)->tensors == llama_layer && config.layers.empty() &&
         config.rope.rotated_of(config.layer.heads.head_dim) == config.layer.heads.head_dim &&
         config.rope.magnitude == 1.0f && config.query_growth.scale == 0.0f;
}

}  // namespace edgedraft
