#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/model/config.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

class GgufFile;

// Non-owning view of a stored tensor in the file's memory. A vector is one row.
struct TensorView {
  DType type = DType::f32;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  ByteView bytes;

  bool present() const { return !bytes.empty(); }
};

// Tensors of one decoder layer. Norms and biases are not blocks; absent biases are empty views.
struct LayerTensors {
  TensorView attn_norm;    // [1, dim]; empty in a drafter's layer without one
  TensorView attn_q;       // [query_cols, dim]
  TensorView attn_k;       // [kv_cols, dim]
  TensorView attn_v;       // [kv_cols, dim]
  TensorView attn_output;  // [dim, query_cols]
  TensorView attn_q_bias;  // [1, query_cols]
  TensorView attn_k_bias;  // [1, kv_cols]
  TensorView attn_v_bias;  // [1, kv_cols]
  TensorView ffn_norm;     // [1, dim]
  TensorView ffn_gate;     // [ffn_dim, dim]
  TensorView ffn_up;       // [ffn_dim, dim]
  TensorView ffn_down;     // [dim, ffn_dim]
};

// Bytes of all its matrices, which a pass over one row reads.
std::uint64_t matrix_bytes(const LayerTensors& layer);

struct DecoderTensors {
  TensorView token_embd;             // [vocabulary, dim]
  TensorView output_norm;            // [1, dim]
  std::optional<TensorView> output;  // [head_rows, dim]; absent if the head is the embedding
  std::vector<LayerTensors> layers;
};

// Reads the model of a GGUF file and checks every shape against the configuration.
//
// Errors    bad_file naming the key or tensor; unsupported naming the architecture or type, or the
//           key or tensor that requires another computation
Result<DecoderConfig> read_decoder_config(const GgufFile& file);
Result<DecoderTensors> read_decoder_tensors(const GgufFile& file, const DecoderConfig& config);

// Configuration and tensors.
struct DecoderModel {
  DecoderConfig config;
  DecoderTensors tensors;
};
// Refuses a drafter with a reduced vocabulary as unsupported: as a model it would lack tokens.
Result<DecoderModel> read_decoder(const GgufFile& file);
Result<DecoderModel> read_draft_decoder(const GgufFile& file);

// Tensors of one layer with a prefix such as "blk.3."; attn_norm may be missing.
Result<LayerTensors> read_layer_tensors(const GgufFile& file, const std::string& prefix,
                                        const LayerShape& shape);

}  // namespace edgedraft
