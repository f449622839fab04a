#include "tests/bench/generated_model.h"

#include "tests/bench/known_shapes.h"
#include "tests/support/read_only_blocks.h"

namespace edgedraft::bench {
namespace {

// A block's float16 numbers: small, so that activations stay of order one.
constexpr std::uint16_t kScale = 0x1000;    // 2^-11
constexpr std::uint16_t kMinimum = 0x0C00;  // 2^-12

// Makes random bytes finite, small numbers.
void tame(DType type, std::span<std::byte> bytes) {
  const DTypeTraits t = traits(type);
  switch (type) {
    case DType::f32:  // magnitude 2^-7
      for (std::size_t i = 3; i < bytes.size(); i += 4) {
        bytes[i] = (bytes[i] & std::byte{0x80}) | std::byte{0x3C};
        bytes[i - 1] &= std::byte{0x7F};
      }
      return;
    case DType::bf16:
      for (std::size_t i = 1; i < bytes.size(); i += 2) {
        bytes[i] = (bytes[i] & std::byte{0x80}) | std::byte{0x3C};
        bytes[i - 1] &= std::byte{0x7F};
      }
      return;
    case DType::f16:
      for (std::size_t i = 1; i < bytes.size(); i += 2) {
        bytes[i] = (bytes[i] & std::byte{0x83}) | std::byte{0x20};
      }
      return;
    case DType::q8_0:
    case DType::q4_0:
    case DType::q5_0:
      for (std::size_t i = 0; i < bytes.size(); i += t.block_bytes) store_le(&bytes[i], kScale);
      return;
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      for (std::size_t i = 0; i < bytes.size(); i += t.block_bytes) {
        store_le(&bytes[i], kScale);
        store_le(&bytes[i + 2], kMinimum);
      }
      return;
    case DType::q6_k:
      for (std::size_t i = 208; i < bytes.size(); i += t.block_bytes) {
        store_le(&bytes[i], kMinimum);
      }
      return;
    default:
      return test::set_scales(type, 0.1f, bytes);
  }
}

LayerShape layer_shape(const KnownShape& s) {
  return {.dim = s.dim, .heads = s.heads, .ffn_dim = s.ffn_dim};
}

// A known shape whose rows consist of whole blocks of the type.
Result<KnownShape> find_shape(const std::string& name, DType type) {
  const auto shape = find_known_shape(name);
  if (!shape) return shape.error();
  if (!row_bytes(type, shape->dim) || !row_bytes(type, shape->ffn_dim)) {
    return Error{Errc::usage, "rows of " + name + " are not a whole number of " +
                                  std::string(traits(type).name) + " blocks; give another --type"};
  }
  return *shape;
}

}  // namespace

Result<GeneratedModel> GeneratedModel::make(const std::string& shape, DType type) {
  const auto s = find_shape(shape, type);
  if (!s) return s.error();
  GeneratedModel model;
  model.config_ = {.architecture = "llama",
                   .vocabulary_count = s->vocabulary,
                   .layer_count = s->layers,
                   .context_length = 32768,
                   .layer = layer_shape(*s),
                   .rope = {}};
  RandomTensors& random = model.random_;
  model.tensors_.token_embd = random.matrix(type, s->vocabulary, s->dim);
  model.tensors_.output_norm = random.norm(s->dim);
  model.tensors_.output = random.matrix(type, s->vocabulary, s->dim);
  for (std::uint32_t i = 0; i < s->layers; ++i) {
    model.tensors_.layers.push_back(random.layer(type, model.config_.layer));
  }
  return model;
}

Result<GeneratedDrafter> GeneratedDrafter::make(const std::string& shape, DType type) {
  const auto s = find_shape(shape, type);
  if (!s) return s.error();
  GeneratedDrafter drafter;
  MoaConfig& c = drafter.config_;
  c.vocabulary_count = s->vocabulary;
  c.context_length = 8192;
  c.self_attention = c.cross_attention = c.target_layer = layer_shape(*s);
  const std::uint32_t lsa_dim = 2 * s->heads.kv_cols();
  c.layer_self_attention = {.dim = lsa_dim,
                            .heads = {.query_heads = 4, .kv_heads = 4, .head_dim = lsa_dim / 16},
                            .ffn_dim = lsa_dim};
  c.target_layer_count = s->layers;
  c.tli = 1;
  RandomTensors& random = drafter.random_;
  MoaTensors& t = drafter.tensors_;
  t.token_embd = random.matrix(type, s->vocabulary, s->dim);
  t.output = random.matrix(type, s->vocabulary, s->dim);
  t.output_norm = random.norm(s->dim);
  t.self_attention = random.layer(type, c.self_attention);
  t.cross_attention = random.layer(type, c.cross_attention);
  t.layer_self_attention = random.layer(type, c.layer_self_attention);
  t.ekv2e = random.matrix(type, s->dim, lsa_dim);
  t.ekv2e_bias = random.norm(s->dim);
  t.tli.push_back(random.layer(type, c.target_layer));
  return drafter;
}

LayerTensors RandomTensors::layer(DType type, const LayerShape& s) {
  LayerTensors layer;
  layer.attn_norm = norm(s.dim);
  layer.attn_q = matrix(type, s.heads.query_cols(), s.dim);
  layer.attn_k = matrix(type, s.heads.kv_cols(), s.dim);
  layer.attn_v = matrix(type, s.heads.kv_cols(), s.dim);
  layer.attn_output = matrix(type, s.dim, s.heads.query_cols());
  layer.ffn_norm = norm(s.dim);
  layer.ffn_gate = matrix(type, s.ffn_dim, s.dim);
  layer.ffn_up = matrix(type, s.ffn_dim, s.dim);
  layer.ffn_down = matrix(type, s.dim, s.ffn_dim);
  return layer;
}

TensorView RandomTensors::matrix(DType wanted, std::uint32_t rows, std::uint32_t cols) {
  // edgedraft convert does the same for rows that are not whole blocks.
  const DType type = cols % traits(wanted).block_count == 0 ? wanted : DType::q8_0;
  const auto size = static_cast<std::size_t>(row_bytes(type, cols).value() * rows);
  Bytes bytes(size);
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    // xorshift64: a gigabyte per second and random enough for timing.
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    store_le(&bytes[i], state_);
  }
  tame(type, bytes);
  bytes_.push_back(std::move(bytes));
  return {.type = type, .rows = rows, .cols = cols, .bytes = bytes_.back()};
}

TensorView RandomTensors::norm(std::uint32_t cols) {
  Bytes bytes(cols * sizeof(float));
  for (std::size_t i = 0; i < cols; ++i) store_le(&bytes[4 * i], 1.0f);
  bytes_.push_back(std::move(bytes));
  return {.type = DType::f32, .rows = 1, .cols = cols, .bytes = bytes_.back()};
}

}  // namespace edgedraft::bench
