#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/e2e/process.h"
#include "tests/model/hf_directory.h"

namespace edgedraft::testing {

// A drafter bundle, "eagle" or "medusa", with random weights that reads the demo target's features:
// random-KIND.gguf.
inline std::string random_drafter(const test::TemporaryDirectory& scratch,
                                  const std::string& kind) {
  constexpr std::uint64_t kDim = 384;  // the demo target's
  test::HfDirectory drafter;
  drafter.scale = 0.1f;
  drafter.tensors = {};
  if (kind == "eagle") {
    drafter.config = {{"hidden_size", kDim}, {"num_attention_heads", 6}};
    drafter.tensors = {{"fc.weight", {kDim, 2 * kDim}},
                       {"layers.0.self_attn.q_proj.weight", {kDim, kDim}},
                       {"layers.0.self_attn.k_proj.weight", {kDim / 3, kDim}},
                       {"layers.0.self_attn.v_proj.weight", {kDim / 3, kDim}},
                       {"layers.0.self_attn.o_proj.weight", {kDim, kDim}},
                       {"layers.0.mlp.gate_proj.weight", {64, kDim}},
                       {"layers.0.mlp.up_proj.weight", {64, kDim}},
                       {"layers.0.mlp.down_proj.weight", {kDim, 64}},
                       {"layers.0.post_attention_layernorm.weight", {kDim}}};
  } else {
    drafter.config = {{"medusa_num_heads", 4}, {"medusa_num_layers", 1}};
    for (const std::string head : {"0", "1", "2", "3"}) {
      drafter.tensors[head + ".0.linear.weight"] = {kDim, kDim};
      drafter.tensors[head + ".0.linear.bias"] = {kDim};
    }
  }
  const test::TemporaryDirectory folder;
  drafter.write(folder);
  const std::string bundle = scratch / ("random-" + kind + ".gguf");
  Process convert({EDGEDRAFT_CLIENT, "convert", demo_model("target"), "--bundle", "--drafter",
                   folder.path(), "-o", bundle},
                  scratch / "convert");
  EXPECT_EQ(convert.wait(), 0) << convert.err();
  return bundle;
}

}  // namespace edgedraft::testing
