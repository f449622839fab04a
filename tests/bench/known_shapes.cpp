#include "tests/bench/known_shapes.h"

#include <array>

namespace edgedraft::bench {
namespace {

constexpr std::array kKnownShapes = {
    KnownShape{"tinyllama", "llama-1.1b", 22, 2048, {32, 4, 64}, 5632, 32000, 2048, 1e4f},
    KnownShape{"llama3-8b", "", 32, 4096, {32, 8, 128}, 14336, 128256, 8192, 5e5f},
    // Its drafter: one layer, 218 million parameters, between the same embedding and head.
    KnownShape{"llama3-8b-draft", "", 1, 4096, {32, 8, 128}, 14336, 128256, 8192, 5e5f},
    KnownShape{"qwen2-0.5b", "", 24, 896, {14, 2, 64}, 4864, 151936, 32768, 1e6f},
    KnownShape{"demo", "", 6, 384, {6, 2, 64}, 768, 4096, 1024, 1e4f},
};

}  // namespace

Result<KnownShape> find_known_shape(std::string_view name) {
  for (const KnownShape& shape : kKnownShapes) {
    if (name == shape.name || (!name.empty() && name == shape.other_name)) return shape;
  }
  return Error{Errc::usage, "--shape " + std::string(name) + ": unknown shape; give one of " +
                                known_shape_names()};
}

std::string known_shape_names() {
  std::string names;
  for (const KnownShape& shape : kKnownShapes) {
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  return names;
}

}  // namespace edgedraft::bench
