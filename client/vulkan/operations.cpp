// Operations of backend.h except matmul, as dispatches of the shaders of the same names.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "client/vulkan/backend.h"
#include "client/vulkan/scratch_sizes.h"
#include "shared/base/check.h"
#include "shared/runtime/op_checks.h"

namespace edgedraft::client::vulkan {
namespace {

using shaders::Shader;

// Vulkan's guaranteed number of workgroups per dimension.
constexpr std::uint64_t kGroupsMax = 65535;

// Query heads per workgroup, which share reads: all of a key-value head, or an even part.
std::uint32_t heads_a_workgroup(const HeadShape& heads) {
  const std::uint32_t group = heads.query_heads / heads.kv_heads;
  for (std::uint32_t count = shaders::kAttentionHeadsMax; count > 1; --count) {
    if (group % count == 0) return count;
  }
  return 1;
}

// Rows per workgroup, which share reads of the prefix: as many as fit into the shared memory that
// every device has.
std::uint32_t rows_a_workgroup(const HeadShape& shape, std::uint32_t heads, std::uint64_t rows) {
  const std::uint32_t padded_dim = (shape.head_dim + 3) / 4 * 4;
  constexpr std::uint32_t kEights = shaders::kAttentionWorkgroup / shaders::kNeighbours;
  const std::uint32_t bytes_a_row =
      heads * (padded_dim + shaders::kAttentionWorkgroup + kEights + 1) * 4 +
      shaders::kAttentionWorkgroup * 4;
  auto count = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(std::bit_ceil(rows), shaders::kAttentionRowsMax));
  while (count > 1 && count * bytes_a_row > shaders::kSharedBytesMax) count /= 2;
  return count;
}

// Slots after the prefix that a row attends to.
std::uint32_t seen_by(const AncestorMask& mask) {
  int count = 0;
  for (const std::uint64_t bits : mask.bits) count += std::popcount(bits);
  return static_cast<std::uint32_t>(count);
}

// Largest number of slots that a row attends to.
std::uint64_t slots_seen(const AttentionOp& op) {
  std::uint64_t behind = 0;
  for (const AncestorMask& mask : op.masks) {
    behind = std::max<std::uint64_t>(behind, seen_by(mask));
  }
  return op.prefix + behind;
}

}  // namespace

// Shaders number types as DType does.
std::uint32_t type_constant(DType type) {
  static_assert(shaders::kTypeF32 == static_cast<std::uint32_t>(DType::f32));
  static_assert(shaders::kTypeF16 == static_cast<std::uint32_t>(DType::f16));
  static_assert(shaders::kTypeI8 == static_cast<std::uint32_t>(DType::i8));
  static_assert(shaders::kTypeBf16 == static_cast<std::uint32_t>(DType::bf16));
  static_assert(shaders::kTypeQ8_0 == static_cast<std::uint32_t>(DType::q8_0));
  static_assert(shaders::kTypeQ4_0 == static_cast<std::uint32_t>(DType::q4_0));
  static_assert(shaders::kTypeQ4_1 == static_cast<std::uint32_t>(DType::q4_1));
  static_assert(shaders::kTypeQ5_0 == static_cast<std::uint32_t>(DType::q5_0));
  static_assert(shaders::kTypeQ5_1 == static_cast<std::uint32_t>(DType::q5_1));
  static_assert(shaders::kTypeQ4_K == static_cast<std::uint32_t>(DType::q4_k));
  static_assert(shaders::kTypeQ5_K == static_cast<std::uint32_t>(DType::q5_k));
  static_assert(shaders::kTypeQ6_K == static_cast<std::uint32_t>(DType::q6_k));
  static_assert(shaders::kTypeQ2_K == static_cast<std::uint32_t>(DType::q2_k));
  static_assert(shaders::kTypeQ3_K == static_cast<std::uint32_t>(DType::q3_k));
  static_assert(shaders::kTypeIq4Xs == static_cast<std::uint32_t>(DType::iq4_xs));
  static_assert(shaders::kTypeIq3S == static_cast<std::uint32_t>(DType::iq3_s));
  static_assert(shaders::kTypeIq3Xxs == static_cast<std::uint32_t>(DType::iq3_xxs));
  static_assert(shaders::kTypeIq2S == static_cast<std::uint32_t>(DType::iq2_s));
  static_assert(shaders::kTypeIq2Xs == static_cast<std::uint32_t>(DType::iq2_xs));
  static_assert(shaders::kTypeIq2Xxs == static_cast<std::uint32_t>(DType::iq2_xxs));
  static_assert(shaders::kTypeIq4Nl == static_cast<std::uint32_t>(DType::iq4_nl));
  static_assert(shaders::kTypeMxfp4 == static_cast<std::uint32_t>(DType::mxfp4));
  return static_cast<std::uint32_t>(type);
}

void VulkanBackend::dispatch(const PipelineKey& key, const Groups& groups, ByteView push,
                             std::initializer_list<Bound> bound) {
  EDGEDRAFT_CHECK(push.size() <= sizeof(Command::push));
  if (groups.x > kGroupsMax || groups.y > kGroupsMax) {
    throw DeviceError("a dispatch of " + std::to_string(std::max(groups.x, groups.y)) +
                      " workgroups is too large for the device");
  }
  Command command;
  command.groups_x = static_cast<std::uint32_t>(groups.x);
  command.groups_y = static_cast<std::uint32_t>(groups.y);
  command.pipeline = &pipelines_.get(key);
  std::size_t i = 0;
  for (const Bound& b : bound) {
    command.slices[i] = b.slice;
    if (b.access == Bound::written) command.written |= 1u << i;
    ++i;
  }
  std::memcpy(command.push.data(), push.data(), push.size());
  stream_.add(command);
}

void VulkanBackend::embed(const EmbedOp& op) {
  check_op(op);
  if (op.tokens.empty()) return;
  const View y = view(op.y);
  const auto row = static_cast<std::uint32_t>(stored_row_bytes(op.table.type, op.table.cols));
  EDGEDRAFT_CHECK(!device_buffer(op.table.buffer).scales_at());
  stream_.reserve(op.tokens.size_bytes(), 0);
  const std::uint32_t tokens_at = stream_.put(op.tokens);
  for (const WeightPart& part : parts(op.table)) {
    dispatch({.shader = Shader::embed, .constants = {type_constant(op.table.type)}},
             {.x = groups_for(op.y.cols, shaders::kRowWorkgroup), .y = op.y.rows},
             shaders::EmbedParams{.table_offset_bytes = part.offset_bytes,
                                  .row_bytes = row,
                                  .first_token = part.first,
                                  .token_count = part.count,
                                  .cols = op.y.cols,
                                  .y_offset = y.offset,
                                  .y_stride = y.stride,
                                  .tokens_at = tokens_at},
             {{part.slice}, {y.slice, Bound::written}});
  }
}

void VulkanBackend::rms_norm(const RmsNormOp& op) {
  check_op(op);
  if (op.x.rows == 0) return;
  const View x = view(op.x);
  const View weight = view(op.weight);
  const View y = view(op.y);
  stream_.reserve(0, 0);
  dispatch({.shader = Shader::rms_norm}, {.x = op.x.cols / op.weight.cols, .y = op.x.rows},
           shaders::RmsNormParams{.x_offset = x.offset,
                                  .x_stride = x.stride,
                                  .weight_offset = weight.offset,
                                  .y_offset = y.offset,
                                  .y_stride = y.stride,
                                  .cols = op.weight.cols,
                                  .epsilon = op.epsilon,
                                  .accumulates = op.into == Into::accumulate ? 1u : 0u},
           {{x.slice}, {weight.slice}, {y.slice, Bound::written}});
}

void VulkanBackend::rope(const RopeOp& op) {
  check_op(op);
  if (op.x.rows == 0 || op.rotated == 0) return;
  const std::uint32_t pair_count = op.x.cols / op.head_dim * (op.rotated / 2);
  const View x = view(op.x);
  const View table = view(op.cos_sin);
  stream_.reserve(op.positions.size_bytes(), 0);
  const std::uint32_t positions_at = stream_.put(op.positions);
  dispatch({.shader = Shader::rope},
           {.x = groups_for(pair_count, shaders::kRowWorkgroup), .y = op.x.rows},
           shaders::RopeParams{.x_offset = x.offset,
                               .x_stride = x.stride,
                               .table_offset = table.offset,
                               .table_stride = table.stride,
                               .head_dim = op.head_dim,
                               .rotated = op.rotated,
                               .pair_count = pair_count,
                               .pairs = op.style == RopeStyle::pairs ? 1u : 0u,
                               .positions_at = positions_at},
           {{x.slice, Bound::written}, {table.slice}});
}

void VulkanBackend::store(const StoreOp& op) {
  check_op(op);
  if (op.x.rows == 0) return;
  const View x = view(op.x);
  const View cache = view(op.cache);
  stream_.reserve(sizeof op.first, 0);
  const std::uint32_t first_at = stream_.put(op.first);
  const DType type = op.cache.memory.type;
  const std::uint32_t items =
      type == DType::i8 ? (op.x.cols + kInt8Block - 1) / kInt8Block : op.x.cols;
  dispatch({.shader = Shader::store, .constants = {type_constant(type)}},
           {.x = groups_for(items, shaders::kRowWorkgroup), .y = op.x.rows},
           shaders::StoreParams{.x_offset = x.offset,
                                .x_stride = x.stride,
                                .cache_offset = cache.offset,
                                .cache_stride = cache.stride,
                                .cols = op.x.cols,
                                .first_at = first_at},
           {{x.slice}, {cache.slice, Bound::written}});
}

shaders::AttentionParams VulkanBackend::attention_params(const View& q, const View& k,
                                                         const View& v, const View& y,
                                                         const HeadShape& heads, float scale) {
  return {.q_offset = q.offset,
          .q_stride = q.stride,
          .k_offset = k.offset,
          .k_stride = k.stride,
          .v_offset = v.offset,
          .v_stride = v.stride,
          .y_offset = y.offset,
          .y_stride = y.stride,
          .rows = 0,
          .group = heads.query_heads / heads.kv_heads,
          .scale = scale,
          .prefix_at = 0,
          .masks_at = 0,
          .splits = 1,
          .group_rows = 0,
          .begins_at = 0,
          .sinks_offset = 0};
}

// Pipeline of `shader` for heads of that shape and the layout of keys and values.
PipelineKey VulkanBackend::attention_key(Shader shader, const HeadShape& shape, std::uint32_t heads,
                                         std::uint64_t rows, const shaders::AttentionParams& at) {
  const bool vectors = shape.head_dim % 4 == 0 && at.k_offset % 4 == 0 && at.k_stride % 4 == 0 &&
                       at.v_offset % 4 == 0 && at.v_stride % 4 == 0;
  return {.shader = shader,
          .constants = {heads, rows_a_workgroup(shape, heads, rows), shape.head_dim, vectors}};
}

void VulkanBackend::attention(const AttentionOp& op) {
  check_op(op);
  if (op.q.rows == 0) return;
  static_assert(sizeof(AncestorMask) == shaders::kMaskWords * sizeof(std::uint32_t));
  const std::uint64_t splits = AttentionParts::splits_of(slots_seen(op));
  // Sized for the whole cache, so that it need not grow with the prefix.
  const AttentionParts parts(op.heads, op.keys.slots(), op.q.rows);
  const Slice memory = splits > 1 ? scratch(parts.bytes()) : Slice{};
  const View q = view(op.q);
  const View k = view(op.keys);
  const View v = view(op.values);
  const View y = view(op.y);
  const bool has_sinks{op.sinks};
  const View sinks = has_sinks ? view(op.sinks) : q;  // any binding, if not read
  const std::size_t begin_count = op.window != 0 ? op.q.rows : 0;
  stream_.reserve(sizeof op.prefix + op.masks.size_bytes() + begin_count * sizeof(std::uint32_t),
                  0);
  shaders::AttentionParams params = attention_params(q, k, v, y, op.heads, op.scale);
  params.rows = op.q.rows;
  params.sinks_offset = has_sinks ? sinks.offset : 0;
  params.prefix_at = stream_.put(op.prefix);
  if (!op.masks.empty()) params.masks_at = params.prefix_at + 1;
  for (const AncestorMask& mask : op.masks) {
    const auto words = std::bit_cast<std::array<std::uint32_t, shaders::kMaskWords>>(mask.bits);
    stream_.put(std::span<const std::uint32_t>(words));
  }
  for (std::uint32_t r = 0; r < begin_count; ++r) {
    const std::uint32_t at = stream_.put(op.window_begin(r));
    if (r == 0) params.begins_at = at;
  }
  const std::uint32_t heads = heads_a_workgroup(op.heads);
  const std::uint32_t head_groups = op.heads.query_heads / heads;
  if (splits == 1) {
    PipelineKey key = attention_key(Shader::attention, op.heads, heads, op.q.rows, params);
    if (op.keys.memory.type == DType::i8) key.constants[3] = op.heads.head_dim % 4 == 0;
    key.constants[5] = type_constant(op.keys.memory.type);
    key.constants[6] = has_sinks;
    dispatch(key, {.x = head_groups, .y = groups_for(op.q.rows, key.constants[1])}, params,
             {{q.slice}, {k.slice}, {v.slice}, {y.slice, Bound::written}, {sinks.slice}});
    return;
  }
  if (splits > kGroupsMax) throw DeviceError("the context is too long for the device");
  params.splits = static_cast<std::uint32_t>(splits);
  const auto rows_max = static_cast<std::uint32_t>(std::min(parts.rows, kGroupsMax / splits));
  for (std::uint32_t first = 0; first < op.q.rows; first += rows_max) {
    params.rows = std::min(rows_max, op.q.rows - first);
    PipelineKey key = attention_key(Shader::attention, op.heads, heads, params.rows, params);
    if (op.keys.memory.type == DType::i8) key.constants[3] = op.heads.head_dim % 4 == 0;
    key.constants[4] = true;
    key.constants[5] = type_constant(op.keys.memory.type);
    dispatch(key, {.x = head_groups, .y = groups_for(params.rows, key.constants[1]) * splits},
             params, {{q.slice}, {k.slice}, {v.slice}, {memory, Bound::written}, {sinks.slice}});
    dispatch({.shader = Shader::combine, .constants = {has_sinks}},
             {.x = op.heads.query_heads, .y = params.rows},
             shaders::CombineParams{.y_offset = params.y_offset,
                                    .y_stride = params.y_stride,
                                    .rows = params.rows,
                                    .splits = params.splits,
                                    .head_dim = op.heads.head_dim,
                                    .prefix_at = params.prefix_at,
                                    .masks_at = params.masks_at,
                                    .begins_at = params.begins_at,
                                    .sinks_offset = params.sinks_offset},
             {{memory}, {y.slice, Bound::written}, {sinks.slice}});
    params.q_offset += params.rows * params.q_stride;
    params.y_offset += params.rows * params.y_stride;
    if (params.masks_at != 0) params.masks_at += params.rows * shaders::kMaskWords;
    if (params.begins_at != 0) params.begins_at += params.rows;
  }
}

void VulkanBackend::group_attention(const GroupAttentionOp& op) {
  check_op(op);
  if (op.q.rows == 0) return;
  const View q = view(op.q);
  const View k = view(op.k);
  const View v = view(op.v);
  const View y = view(op.y);
  stream_.reserve(0, 0);
  const std::uint32_t heads = heads_a_workgroup(op.heads);
  shaders::AttentionParams params = attention_params(q, k, v, y, op.heads, op.heads.score_scale());
  params.rows = op.q.rows;
  params.group_rows = op.group_rows;
  dispatch(attention_key(Shader::group_attention, op.heads, heads, 1, params),
           {.x = op.heads.query_heads / heads, .y = op.q.rows}, params,
           {{q.slice}, {k.slice}, {v.slice}, {y.slice, Bound::written}});
}

void VulkanBackend::gate(const GateOp& op) {
  check_op(op);
  if (op.y.rows == 0) return;
  const View gate = view(op.gate);
  const View up = view(op.up);
  const View y = view(op.y);
  stream_.reserve(0, 0);
  static_assert(shaders::kActivationSilu == static_cast<std::uint32_t>(Activation::silu));
  static_assert(shaders::kActivationGelu == static_cast<std::uint32_t>(Activation::gelu));
  static_assert(shaders::kActivationClamped == static_cast<std::uint32_t>(Activation::clamped));
  static_assert(shaders::kActivationSigmoid == static_cast<std::uint32_t>(Activation::sigmoid));
  static_assert(shaders::kActivationIdentity == static_cast<std::uint32_t>(Activation::identity));
  const auto activation = static_cast<std::uint32_t>(op.activation);
  dispatch({.shader = Shader::gate, .constants = {activation, op.gate.cols == 1}},
           {.x = groups_for(op.y.cols, shaders::kRowWorkgroup), .y = op.y.rows},
           shaders::GateParams{.gate_offset = gate.offset,
                               .gate_stride = gate.stride,
                               .up_offset = up.offset,
                               .up_stride = up.stride,
                               .y_offset = y.offset,
                               .y_stride = y.stride,
                               .cols = op.y.cols},
           {{gate.slice}, {up.slice}, {y.slice, Bound::written}});
}

void VulkanBackend::scale(const ScaleOp& op) {
  check_op(op);
  if (op.x.rows == 0) return;
  const View x = view(op.x);
  stream_.reserve(0, 0);
  dispatch({.shader = Shader::scale},
           {.x = groups_for(op.x.cols, shaders::kRowWorkgroup), .y = op.x.rows},
           shaders::ScaleParams{
               .x_offset = x.offset, .x_stride = x.stride, .cols = op.x.cols, .factor = op.factor},
           {{x.slice, Bound::written}});
}

void VulkanBackend::soft_cap(const SoftCapOp& op) {
  check_op(op);
  if (op.x.rows == 0) return;
  const View x = view(op.x);
  stream_.reserve(0, 0);
  dispatch({.shader = Shader::soft_cap},
           {.x = groups_for(op.x.cols, shaders::kRowWorkgroup), .y = op.x.rows},
           shaders::SoftCapParams{
               .x_offset = x.offset, .x_stride = x.stride, .cols = op.x.cols, .cap = op.cap},
           {{x.slice, Bound::written}});
}

void VulkanBackend::compact(const CompactOp& op) {
  check_op(op);
  if (op.slots.empty()) return;
  const View cache = view(op.cache);
  stream_.reserve(2 * sizeof(std::uint32_t) + op.slots.size_bytes(), 0);
  const std::uint32_t first_at = stream_.put(op.first);
  stream_.put(static_cast<std::uint32_t>(op.slots.size()));
  stream_.put(op.slots);
  const DType type = op.cache.memory.type;
  const auto items =
      type == DType::i8
          ? static_cast<std::uint32_t>(cache_bytes(type, op.cache.cols()) / sizeof(float))
          : op.cache.cols();
  dispatch({.shader = Shader::compact, .constants = {type == DType::f16}},
           {.x = groups_for(items, shaders::kRowWorkgroup)},
           shaders::CompactParams{.cache_offset = cache.offset,
                                  .cache_stride = cache.stride,
                                  .cols = items,
                                  .first_at = first_at},
           {{cache.slice, Bound::written}});
}

void VulkanBackend::gather_layers(const GatherLayersOp& op) {
  check_op(op);
  if (op.slots.empty() || op.keys.empty()) return;
  const View y = view(op.y);
  const auto layers = static_cast<std::uint32_t>(op.keys.size());
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const View k = view(op.keys[layer]);
    const View v = view(op.values[layer]);
    stream_.reserve(op.slots.size_bytes(), 0);
    const std::uint32_t slots_at = stream_.put(op.slots);
    dispatch(
        {.shader = Shader::gather_layers, .constants = {type_constant(op.keys[layer].memory.type)}},
        {.x = groups_for(op.heads.kv_cols(), shaders::kRowWorkgroup), .y = op.slots.size()},
        shaders::GatherLayersParams{.k_offset = k.offset,
                                    .k_stride = k.stride,
                                    .v_offset = v.offset,
                                    .v_stride = v.stride,
                                    .y_offset = y.offset,
                                    .y_stride = y.stride,
                                    .head_dim = op.heads.head_dim,
                                    .kv_cols = op.heads.kv_cols(),
                                    .layer = layer,
                                    .layers = layers,
                                    .pairs = op.style == RopeStyle::pairs ? 1u : 0u,
                                    .slots_at = slots_at},
        {{k.slice}, {v.slice}, {y.slice, Bound::written}});
  }
}

void VulkanBackend::group_mean(const GroupMeanOp& op) {
  check_op(op);
  if (op.y.rows == 0) return;
  const View x = view(op.x);
  const View y = view(op.y);
  stream_.reserve(0, 0);
  dispatch({.shader = Shader::group_mean},
           {.x = groups_for(op.y.cols, shaders::kRowWorkgroup), .y = op.y.rows},
           shaders::GroupMeanParams{.x_offset = x.offset,
                                    .x_stride = x.stride,
                                    .y_offset = y.offset,
                                    .y_stride = y.stride,
                                    .cols = op.y.cols,
                                    .group_rows = op.group_rows},
           {{x.slice}, {y.slice, Bound::written}});
}

void VulkanBackend::route(const RouteOp& op) {
  check_op(op);
  static_assert(shaders::kExpertsMax == kExpertsMax);
  static_assert(shaders::kExpertsUsedMax == kExpertsUsedMax);
  if (op.logits.rows == 0) return;
  const View x = view(op.logits);
  const View experts = view(op.experts);
  const View weights = view(op.weights);
  stream_.reserve(0, 0);
  dispatch({.shader = Shader::route}, {.x = op.logits.rows},
           shaders::RouteParams{.x_offset = x.offset,
                                .x_stride = x.stride,
                                .count = op.logits.cols,
                                .used = op.used,
                                .experts_offset = experts.offset,
                                .experts_stride = experts.stride,
                                .weights_offset = weights.offset,
                                .weights_stride = weights.stride},
           {{x.slice}, {experts.slice, Bound::written}, {weights.slice, Bound::written}});
}

void VulkanBackend::mix(const MixOp& op) {
  check_op(op);
  if (op.y.rows == 0) return;
  const View x = view(op.x);
  const View weights = view(op.weights);
  const View y = view(op.y);
  stream_.reserve(0, 0);
  dispatch({.shader = Shader::mix},
           {.x = groups_for(op.y.cols, shaders::kRowWorkgroup), .y = op.y.rows},
           shaders::MixParams{.x_offset = x.offset,
                              .x_stride = x.stride,
                              .weights_offset = weights.offset,
                              .weights_stride = weights.stride,
                              .y_offset = y.offset,
                              .y_stride = y.stride,
                              .cols = op.y.cols,
                              .used = op.weights.cols},
           {{x.slice}, {weights.slice}, {y.slice, Bound::written}});
}

Slice VulkanBackend::scratch(std::uint64_t bytes) {
  if (scratch_.bytes() < bytes) {
    stream_.flush();
    scratch_ = {};
    scratch_ = arena_.allocate(bytes);
  }
  const Slice slice{.block = scratch_.block(), .offset = scratch_.offset(), .bytes = bytes};
  if (bytes > device_.storage_range_max()) {
    throw DeviceError("too many rows at once for the device");
  }
  return slice;
}

std::uint64_t VulkanBackend::copy_out(const Slice& from) {
  stream_.reserve(0, from.bytes);
  const std::uint64_t at = stream_.add_result(from.bytes);
  Command copy;
  copy.kind = Command::copy_out;
  copy.slices[0] = from;
  copy.host_offset = at;
  copy.row_bytes = from.bytes;
  copy.row_count = 1;
  stream_.add(copy);
  return at;
}

// Returns   rows * k pairs of logit and token, then per row a pair of maximum and sum
Slice VulkanBackend::run_top_k(const TopKOp& op) {
  const std::uint64_t rows = op.logits.rows;
  const TopKPlaces places(rows, op.logits.cols, op.k);
  const Slice memory = scratch(places.end * TopKPlaces::kPairBytes);
  const View logits = view(op.logits);

  std::uint64_t count = op.logits.cols;
  std::uint64_t from = 0;
  for (std::uint32_t pass = 0;; ++pass) {
    const bool is_first = pass == 0;
    const std::uint64_t segments = TopKPlaces::segments_of(count);
    const bool is_last = segments == 1;
    const std::uint64_t to = is_last ? 0 : places.choices[pass % 2];
    const std::uint64_t chosen = is_last ? op.k : segments * op.k;
    stream_.reserve(0, 0);
    dispatch(
        {.shader = Shader::top_k, .constants = {is_first, is_last}}, {.x = segments, .y = rows},
        shaders::TopKParams{
            .x_offset = is_first ? logits.offset : static_cast<std::uint32_t>(from),
            .x_stride = is_first ? logits.stride : static_cast<std::uint32_t>(count),
            .count = static_cast<std::uint32_t>(count),
            .k = op.k,
            .y_offset = static_cast<std::uint32_t>(to),
            .y_stride = static_cast<std::uint32_t>(chosen),
            .sums_offset = static_cast<std::uint32_t>(places.sums),
            .sums_stride = static_cast<std::uint32_t>(places.segments),
            .totals_offset = static_cast<std::uint32_t>(places.totals)},
        {{is_first ? logits.slice : memory}, {memory, Bound::written}, {memory, Bound::written}});
    if (is_last) break;
    from = to;
    count = chosen;
  }
  return {.block = memory.block,
          .offset = memory.offset,
          .bytes = places.sums * TopKPlaces::kPairBytes};
}

void VulkanBackend::top_k(const TopKOp& op) {
  check_op(op);
  if (op.logits.rows == 0) return;
  const Slice result = run_top_k(op);
  const std::uint64_t at = copy_out(result);
  struct Pair {
    float value;
    std::uint32_t bits;  // a token, or a sum
  };
  const std::size_t choices = op.tokens.size();
  std::vector<Pair> pairs(choices + op.logits.rows);
  std::memcpy(pairs.data(), stream_.finish().data() + at, pairs.size() * sizeof(Pair));
  for (std::size_t r = 0; r < op.logits.rows; ++r) {
    const Pair& total = pairs[choices + r];
    const double log_sum = std::log(double{std::bit_cast<float>(total.bits)});
    for (std::size_t i = r * op.k; i < (r + 1) * op.k; ++i) {
      op.tokens[i] = pairs[i].bits;
      op.log_probs[i] = static_cast<float>(double{pairs[i].value} - double{total.value} - log_sum);
    }
  }
}

void VulkanBackend::argmax(const ArgmaxOp& op) {
  check_op(op);
  if (op.logits.rows == 0) return;
  const std::uint64_t rows = op.logits.rows;
  const ArgmaxPlaces places(rows, op.logits.cols);
  const Slice memory = scratch(places.end * ArgmaxPlaces::kPairBytes);
  const View x = view(op.logits);
  const bool is_one_pass = places.segments == 1;
  const auto choices = static_cast<std::uint32_t>(places.choices);
  stream_.reserve(0, 0);
  dispatch({.shader = Shader::argmax, .constants = {true, is_one_pass}},
           {.x = places.segments, .y = rows},
           shaders::ArgmaxParams{.x_offset = x.offset,
                                 .x_stride = x.stride,
                                 .count = op.logits.cols,
                                 .y_offset = is_one_pass ? 0 : choices},
           {{x.slice}, {memory, Bound::written}});
  if (!is_one_pass) {
    const auto count = static_cast<std::uint32_t>(places.segments);
    stream_.reserve(0, 0);
    dispatch({.shader = Shader::argmax, .constants = {false, true}}, {.x = 1, .y = rows},
             shaders::ArgmaxParams{
                 .x_offset = choices, .x_stride = count, .count = count, .y_offset = 0},
             {{memory}, {memory, Bound::written}});
  }
  const std::uint64_t bytes = op.tokens.size_bytes();
  const std::uint64_t at =
      copy_out({.block = memory.block, .offset = memory.offset, .bytes = bytes});
  std::memcpy(op.tokens.data(), stream_.finish().data() + at, bytes);
}

}  // namespace edgedraft::client::vulkan
