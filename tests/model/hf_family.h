#pragma once

#include <string>

#include "shared/model/gguf.h"
#include "tests/model/hf_checkpoint.h"

namespace edgedraft::test {

// Variants of Hugging Face's layout of one model.
struct HfVariant {
  std::string family;           // file of tests/data/families
  bool joined_experts = false;  // one tensor for all experts
  bool plain_experts = false;   // gpt-oss without MXFP4
  bool with_images = false;     // the language model is a part
  bool newer_keys = false;      // layer_types and rope_parameters
};

// The folder that would be converted to `file`: the inverse of each family's formulas.
HfCheckpoint hf_checkpoint_of(const GgufFile& file, const HfVariant& variant);

}  // namespace edgedraft::test
