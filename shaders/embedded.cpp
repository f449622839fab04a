#include "shaders/embedded.h"

namespace edgedraft::shaders {
namespace {

struct Embedded {
  Shader shader;
  Build build;
};

// Defines kEmbedded; CMakeLists.txt generates it.
#include "builds.spv.inc"

}  // namespace

Build spirv(Shader shader, Features features) {
  Build best{};
  for (const Embedded& one : kEmbedded) {  // supersets of features come later
    const bool is_usable = (one.build.features & ~features) == 0;
    if (one.shader == shader && is_usable) best = one.build;
  }
  return best;
}

}  // namespace edgedraft::shaders
