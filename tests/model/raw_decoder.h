#pragma once

#include <string>

#include "shared/base/random.h"
#include "shared/tensor/dtype.h"
#include "tests/model/raw_gguf.h"

namespace edgedraft::test {

// A Llama of two layers: width 8, 2 query heads over 1 key head of 4, ffn 12, vocabulary 5.
inline void add_raw_tensor(RawGguf& file, const std::string& name,
                           std::vector<std::uint64_t> dims) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : dims) count *= dim;
  const std::size_t at = (file.data.size() + 31) / 32 * 32;
  file.data.resize(at + 4 * count);
  Random random(at + 1);
  for (std::uint64_t i = 0; i < count; ++i) {
    store_le(&file.data[at + 4 * i], static_cast<float>(random.uniform()));
  }
  file.tensors.push_back({name, std::move(dims), 0, at});
}

inline RawGguf raw_decoder() {
  RawGguf file;
  file.add_string("general.architecture", "llama");
  file.add_u32("llama.block_count", 2);
  file.add_u32("llama.context_length", 64);
  file.add_u32("llama.embedding_length", 8);
  file.add_u32("llama.feed_forward_length", 12);
  file.add_u32("llama.attention.head_count", 2);
  file.add_u32("llama.attention.head_count_kv", 1);
  file.add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  file.add_f32("llama.rope.freq_base", 500.0f);
  add_raw_tensor(file, "token_embd.weight", {8, 5});
  add_raw_tensor(file, "output_norm.weight", {8});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    add_raw_tensor(file, layer + "attn_norm.weight", {8});
    add_raw_tensor(file, layer + "attn_q.weight", {8, 8});
    add_raw_tensor(file, layer + "attn_k.weight", {8, 4});
    add_raw_tensor(file, layer + "attn_v.weight", {8, 4});
    add_raw_tensor(file, layer + "attn_output.weight", {8, 8});
    add_raw_tensor(file, layer + "ffn_norm.weight", {8});
    add_raw_tensor(file, layer + "ffn_gate.weight", {8, 12});
    add_raw_tensor(file, layer + "ffn_up.weight", {8, 12});
    add_raw_tensor(file, layer + "ffn_down.weight", {12, 8});
  }
  return file;
}

}  // namespace edgedraft::test
