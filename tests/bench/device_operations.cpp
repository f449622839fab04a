#include "tests/bench/device_operations.h"

#include <algorithm>
#include <numeric>

#include "shared/runtime/layer.h"

namespace edgedraft::bench {
namespace {

double floats(double count) {
  return 4.0 * count;
}

}  // namespace

Operations::Operations(Backend& backend, const Sizes& sizes, const MoaTensors& tensors)
    : backend_(backend),
      sizes_(sizes),
      tensors_(tensors),
      numbers_(sizes.width),
      masks_(causal_masks(sizes.width)),
      tokens_(sizes.width * kChoices),
      log_probs_(sizes.width * kChoices) {
  std::iota(numbers_.begin(), numbers_.end(), 1u);
}

const OwnedMatrix& Operations::matrix(std::uint32_t rows, std::uint32_t cols) {
  return *matrices_.emplace_back(std::make_unique<OwnedMatrix>(backend_, rows, cols));
}

// A cache of the type that drafters use on this backend.
CacheRows Operations::cache(std::uint32_t rows, std::uint32_t cols) {
  const DType type = backend_.drafter_cache_type();
  buffers_.push_back(
      backend_.allocate((cache_bytes(type, std::uint64_t{rows} * cols) + 3) / sizeof(float)));
  return {buffers_.back().get(), 0, rows, cols, type};
}

Weight Operations::weight(const TensorView& t) {
  buffers_.push_back(
      backend_.upload_matrix({.type = t.type, .rows = t.rows, .cols = t.cols, .bytes = t.bytes}));
  return {.buffer = buffers_.back().get(), .type = t.type, .rows = t.rows, .cols = t.cols};
}

Weight Operations::table(const TensorView& t) {
  buffers_.push_back(
      backend_.upload_table({.type = t.type, .rows = t.rows, .cols = t.cols, .bytes = t.bytes}));
  return {.buffer = buffers_.back().get(), .type = t.type, .rows = t.rows, .cols = t.cols};
}

Operation Operations::product(const std::string& name, const TensorView& tensor) {
  const Weight w = weight(tensor);
  const Matrix x = matrix(sizes_.width, tensor.cols).all();
  const Matrix y = matrix(sizes_.width, tensor.rows).all();
  return {.name = "matmul " + name,
          .shader = "matmul",
          .bytes = static_cast<double>(tensor.bytes.size()) +
                   floats(static_cast<double>(sizes_.width) * (tensor.rows + tensor.cols)),
          .run = [this, w, x, y] { backend_.matmul({.x = x, .weight = w, .bias = {}, .y = y}); }};
}

void Operations::wait() {
  float number = 0.0f;
  backend_.read(matrices_.front()->all().row_range(0, 1).column_range(0, 1), {&number, 1});
}

std::vector<Operation> Operations::all() {
  const std::uint32_t rows = sizes_.width;
  const LayerShape& s = sizes_.layer;
  const double row_count = rows;
  const Matrix x = matrix(rows, s.dim).all();
  const Matrix gate = matrix(rows, s.ffn_dim).all();
  const Matrix q = matrix(rows, s.heads.query_cols()).all();
  const Matrix k = matrix(rows, s.heads.kv_cols()).all();
  const std::uint32_t capacity = sizes_.context + kMaskRowsMax;
  const CacheRows keys = cache(capacity, s.heads.kv_cols());
  const CacheRows values = cache(capacity, s.heads.kv_cols());
  const double kv_bytes = static_cast<double>(cache_bytes(keys.type, s.heads.kv_cols()));
  const Matrix logits = matrix(rows, sizes_.vocabulary).all();
  const Matrix angles = matrix(capacity, s.heads.head_dim).all();
  const Weight norm = table(tensors_.output_norm);
  const Weight embedding = table(tensors_.token_embd);
  const double slots = sizes_.context + row_count;

  std::vector<Operation> all;
  all.push_back({"embed", "embed", floats(row_count * s.dim) * 1.3,
                 [=, this] { backend_.embed({.table = embedding, .tokens = numbers_, .y = x}); }});
  all.push_back({"rms_norm", "rms_norm", floats(2 * row_count * s.dim), [=, this] {
                   backend_.rms_norm({.x = x, .weight = norm, .y = x, .epsilon = 1e-5f});
                 }});
  const LayerTensors& layer = tensors_.self_attention;
  all.push_back(product("q", layer.attn_q));
  all.push_back(product("k", layer.attn_k));
  all.push_back(product("gate", layer.ffn_gate));
  all.push_back(product("down", layer.ffn_down));
  all.push_back(product("head", tensors_.output.value_or(tensors_.token_embd)));
  all.push_back({"rope", "rope", floats(2 * row_count * s.heads.query_cols()), [=, this] {
                   backend_.rope({.x = q,
                                  .positions = numbers_,
                                  .cos_sin = angles,
                                  .head_dim = s.heads.head_dim,
                                  .rotated = s.heads.head_dim,
                                  .style = RopeStyle::halves});
                 }});
  all.push_back({"store", "store", row_count * (floats(s.heads.kv_cols()) + kv_bytes),
                 [=, this] { backend_.store({.x = k, .cache = keys, .first = sizes_.context}); }});
  all.push_back({"attention", "attention",
                 2 * slots * kv_bytes + floats(2 * row_count * s.heads.query_cols()), [=, this] {
                   backend_.attention({.q = q,
                                       .keys = keys,
                                       .values = values,
                                       .prefix = sizes_.context,
                                       .masks = masks_,
                                       .heads = s.heads,
                                       .y = q,
                                       .scale = s.heads.score_scale()});
                 }});
  all.push_back({"gate", "gate", floats(3 * row_count * s.ffn_dim), [=, this] {
                   backend_.gate(
                       {.gate = gate, .up = gate, .y = gate, .activation = Activation::silu});
                 }});
  all.push_back({"compact", "compact", 2 * row_count * kv_bytes,
                 [=, this] { backend_.compact({.cache = keys, .first = 0, .slots = numbers_}); }});
  all.push_back(
      {"top_k", "top_k", floats(row_count * sizes_.vocabulary), [=, this] {
         backend_.top_k(
             {.logits = logits, .k = kChoices, .tokens = tokens_, .log_probs = log_probs_});
       }});
  all.push_back({"argmax", "argmax", floats(row_count * sizes_.vocabulary), [=, this] {
                   backend_.argmax({.logits = logits, .tokens = std::span(tokens_).first(rows)});
                 }});
  const Matrix one = matrix(1, s.heads.kv_cols()).all();
  all.push_back({"group_mean", "group_mean", floats(row_count * s.heads.kv_cols()),
                 [=, this] { backend_.group_mean({.x = k, .group_rows = rows, .y = one}); }});
  all.push_back({"group_attention", "group_attention",
                 floats(2 * row_count * s.heads.kv_cols() + 2 * row_count * s.heads.query_cols()),
                 [=, this] {
                   backend_.group_attention(
                       {.q = q, .k = k, .v = k, .group_rows = rows, .heads = s.heads, .y = q});
                 }});
  return all;
}

}  // namespace edgedraft::bench
