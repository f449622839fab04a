#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/model/config.h"

namespace edgedraft::bench {

// The sizes of a known model, for random weights.
struct KnownShape {
  std::string_view name;
  std::string_view other_name;  // alias; empty: none
  std::uint32_t layers;
  std::uint32_t dim;
  HeadShape heads;
  std::uint32_t ffn_dim;
  std::uint32_t vocabulary;
  std::uint32_t context;
  float theta;
};

// Errors    usage; lists the shapes
Result<KnownShape> find_known_shape(std::string_view name);

// "tinyllama, llama3-8b, ...".
std::string known_shape_names();

}  // namespace edgedraft::bench
