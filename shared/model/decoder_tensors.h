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
class GgufKeys;
class LayerList;

// Non-owning view of a stored tensor in the file's memory. A vector is one row.
struct TensorView {
  DType type = DType::f32;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  ByteView bytes;
  // Rows that are not consecutive: groups of `group` rows, each followed by as many rows of another
  // tensor; 0: consecutive.
  std::uint32_t group = 0;
  std::uint32_t experts = 1;  // matrices of equal shape, one after the other in `rows`

  bool present() const { return !bytes.empty(); }
};

// The parts of one decoder layer, as tensors of a file (TensorView) or on a backend (Weight). What
// a layer does not have is absent. Norms and biases are not blocks.
template <class T>
struct LayerParts {
  T attn_norm;          // [1, dim]; absent in a drafter's layer without one
  T attn_q;             // [query_cols, dim]
  T attn_k;             // [kv_cols, dim]
  T attn_v;             // [kv_cols, dim]; without it the product of attn_k is the values, too
  T attn_output;        // [dim, query_cols]
  T attn_q_bias;        // [1, query_cols]
  T attn_k_bias;        // [1, kv_cols]
  T attn_v_bias;        // [1, kv_cols]
  T attn_o_bias;        // [1, dim]
  T attn_q_norm;        // [1, head_dim], for each head
  T attn_k_norm;        // [1, head_dim]
  T attn_v_norm;        // [1, head_dim]
  T attn_gate;          // [query_cols, dim]; its sigmoid multiplies what attention gives
  T attn_sinks;         // [1, query_heads]
  T post_attn_norm;     // [1, dim], of what the mixer adds
  T delta_qkv;          // [2 * key_cols + value_cols, dim]
  T delta_gate;         // [value_cols, dim]
  T delta_alpha;        // [value_heads, dim]
  T delta_beta;         // [value_heads, dim]
  T delta_decay;        // [1, value_heads]
  T delta_time;         // [1, value_heads]
  T delta_norm;         // [1, delta dim], for each head
  T delta_output;       // [dim, value_cols]
  T conv_taps;          // [columns of the convolution, taps]
  T conv_input;         // [3 * dim, dim]
  T conv_output;        // [dim, dim]
  T ffn_norm;           // [1, dim]
  T ffn_gate;           // [ffn_dim, dim]
  T ffn_up;             // [ffn_dim, dim]
  T ffn_down;           // [dim, ffn_dim]
  T post_ffn_norm;      // [1, dim], of what the feed-forward adds
  T router;             // [experts, dim]
  T router_norm;        // [1, dim], of the router's input, where experts are beside dense matrices
  T router_bias;        // [1, experts]
  T experts_gate;       // experts x [expert ffn_dim, dim]
  T experts_up;         // experts x [expert ffn_dim, dim]
  T experts_down;       // experts x [dim, expert ffn_dim]
  T experts_gate_bias;  // [experts, expert ffn_dim]
  T experts_up_bias;    // [experts, expert ffn_dim]
  T experts_down_bias;  // [experts, dim]
  T experts_scale;      // experts x [1, 1]; multiplies what each expert gives
  // Norms of layers whose experts are beside dense matrices: before the experts, after each.
  T experts_norm;       // [1, dim]
  T post_experts_norm;  // [1, dim]
  T post_dense_norm;    // [1, dim]
  T shared_gate;        // [shared ffn_dim, dim], of the expert that every row uses
  T shared_up;          // [shared ffn_dim, dim]
  T shared_down;        // [dim, shared ffn_dim]
  T share;              // [1, dim]; the sigmoid of its product weighs the shared expert
  T embd_gate;          // [layer embedding dim, dim]; gates the token's embedding for the layer
  T embd_output;        // [dim, layer embedding dim]
  T post_embd_norm;     // [1, dim], of what the embedding adds
  T output_scale;       // [1, 1]; multiplies the layer's output
};

// vector: read as float32 where it is; matrix: multiplied; number: read at load.
enum class PartKind : std::uint8_t { vector, matrix, number };

// Calls visit(from.part, to.part, kind) for every part.
template <class From, class To, class Visit>
void for_each_part(From& from, To& to, const Visit& visit) {
  visit(from.attn_norm, to.attn_norm, PartKind::vector);
  visit(from.attn_q_bias, to.attn_q_bias, PartKind::vector);
  visit(from.attn_k_bias, to.attn_k_bias, PartKind::vector);
  visit(from.attn_v_bias, to.attn_v_bias, PartKind::vector);
  visit(from.attn_o_bias, to.attn_o_bias, PartKind::vector);
  visit(from.attn_q_norm, to.attn_q_norm, PartKind::vector);
  visit(from.attn_k_norm, to.attn_k_norm, PartKind::vector);
  visit(from.attn_v_norm, to.attn_v_norm, PartKind::vector);
  visit(from.attn_sinks, to.attn_sinks, PartKind::vector);
  visit(from.post_attn_norm, to.post_attn_norm, PartKind::vector);
  visit(from.delta_decay, to.delta_decay, PartKind::vector);
  visit(from.delta_time, to.delta_time, PartKind::vector);
  visit(from.delta_norm, to.delta_norm, PartKind::vector);
  visit(from.conv_taps, to.conv_taps, PartKind::vector);
  visit(from.ffn_norm, to.ffn_norm, PartKind::vector);
  visit(from.post_ffn_norm, to.post_ffn_norm, PartKind::vector);
  visit(from.post_embd_norm, to.post_embd_norm, PartKind::vector);
  visit(from.router_norm, to.router_norm, PartKind::vector);
  visit(from.router_bias, to.router_bias, PartKind::vector);
  visit(from.experts_norm, to.experts_norm, PartKind::vector);
  visit(from.post_experts_norm, to.post_experts_norm, PartKind::vector);
  visit(from.post_dense_norm, to.post_dense_norm, PartKind::vector);
  visit(from.experts_gate_bias, to.experts_gate_bias, PartKind::vector);
  visit(from.experts_up_bias, to.experts_up_bias, PartKind::vector);
  visit(from.experts_down_bias, to.experts_down_bias, PartKind::vector);
  visit(from.attn_q, to.attn_q, PartKind::matrix);
  visit(from.attn_k, to.attn_k, PartKind::matrix);
  visit(from.attn_v, to.attn_v, PartKind::matrix);
  visit(from.attn_output, to.attn_output, PartKind::matrix);
  visit(from.attn_gate, to.attn_gate, PartKind::matrix);
  visit(from.delta_qkv, to.delta_qkv, PartKind::matrix);
  visit(from.delta_gate, to.delta_gate, PartKind::matrix);
  visit(from.delta_alpha, to.delta_alpha, PartKind::matrix);
  visit(from.delta_beta, to.delta_beta, PartKind::matrix);
  visit(from.delta_output, to.delta_output, PartKind::matrix);
  visit(from.conv_input, to.conv_input, PartKind::matrix);
  visit(from.conv_output, to.conv_output, PartKind::matrix);
  visit(from.ffn_gate, to.ffn_gate, PartKind::matrix);
  visit(from.ffn_up, to.ffn_up, PartKind::matrix);
  visit(from.ffn_down, to.ffn_down, PartKind::matrix);
  visit(from.router, to.router, PartKind::matrix);
  visit(from.experts_gate, to.experts_gate, PartKind::matrix);
  visit(from.experts_up, to.experts_up, PartKind::matrix);
  visit(from.experts_down, to.experts_down, PartKind::matrix);
  visit(from.experts_scale, to.experts_scale, PartKind::matrix);
  visit(from.shared_gate, to.shared_gate, PartKind::matrix);
  visit(from.shared_up, to.shared_up, PartKind::matrix);
  visit(from.shared_down, to.shared_down, PartKind::matrix);
  visit(from.share, to.share, PartKind::matrix);
  visit(from.embd_gate, to.embd_gate, PartKind::matrix);
  visit(from.embd_output, to.embd_output, PartKind::matrix);
  visit(from.output_scale, to.output_scale, PartKind::number);
}

using LayerTensors = LayerParts<TensorView>;

// Bytes of all its matrices, which a pass over one row reads.
std::uint64_t matrix_bytes(const LayerTensors& layer);

struct DecoderTensors {
  TensorView token_embd;             // [vocabulary, dim]
  TensorView output_norm;            // [1, dim]
  std::optional<TensorView> output;  // [head_rows, dim]; absent if the head is the embedding
  // Embeddings of all layers side by side; absent without them. What a token adds to a layer comes
  // from its row of the table and from the product of its embedding, normed for each layer.
  TensorView layer_embd;             // [vocabulary, layers * layer embedding dim]
  TensorView layer_embd_projection;  // [layers * layer embedding dim, dim]
  TensorView layer_embd_norm;        // [1, layer embedding dim]
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

// As read_decoder_config, of the keys of `architecture` in a file that may have another one, and
// without the vocabulary.
Result<DecoderConfig> read_family_config(const GgufFile& file, std::string_view architecture);
// As above, with other keys than the file's.
Result<DecoderConfig> read_family_config(const GgufFile& file, const GgufKeys& keys,
                                         std::string_view architecture);

// Tensors of a layer of a family's model with a prefix such as "blk.3.".
Result<LayerTensors> read_family_layer(const GgufFile& file, const std::string& prefix,
                                       std::string_view architecture, const LayerPlan& plan);

// Tensors of a listed layer.
Result<LayerTensors> read_layer_tensors(const GgufFile& file, const std::string& prefix,
                                        const LayerList& list);
// Tensors of a Llama layer with a prefix such as "layer."; attn_norm may be missing.
Result<LayerTensors> read_layer_tensors(const GgufFile& file, const std::string& prefix,
                                        const LayerShape& shape);

}  // namespace edgedraft
