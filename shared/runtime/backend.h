#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "shared/model/config.h"
#include "shared/runtime/memory_meter.h"
#include "shared/tensor/dtype.h"
#include "shared/tensor/element_type.h"

// Operator contracts. Layers are written once on top of them; tests/support/reference_backend.h is
// their executable specification.
//
// Guarantees of every operation on every backend:
//  - Row-major float32 activations, last dimension contiguous.
//  - Batch invariance: a row's result depends bit for bit on that row alone, not on the call's
//    other rows. Sums run in one order for every width.
//  - Asynchronous: only `Backend::wait` and `Backend::read` wait. Throws DeviceError if work cannot
//    be enqueued.
//  - Callers must pass valid shapes; EDGEDRAFT_CHECK enforces it.
namespace edgedraft {

// Rows per call with a tree mask: a root and 255 nodes, or one chunk of a prompt.
inline constexpr std::uint32_t kMaskRowsMax = 256;

// The environment failed: device lost, out of device memory.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Memory of one backend. Its owner must outlive every Matrix and Weight in it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

 protected:
  Buffer() = default;
};

// Non-owning float32 matrix in a Buffer: rows x cols, row r at offset + r * stride (in floats).
struct Matrix {
  Buffer* buffer = nullptr;
  std::uint64_t offset = 0;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::uint64_t stride = 0;

  Matrix row_range(std::uint32_t first, std::uint32_t count) const;
  Matrix column_range(std::uint32_t first, std::uint32_t count) const;
};

// Non-owning rows of stored keys or values: a Matrix of a cache type (kCacheTypes). Offset and
// stride count elements; those of int8 are whole blocks.
struct CacheRows {
  Buffer* buffer = nullptr;
  std::uint64_t offset = 0;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::uint64_t stride = 0;
  DType type = DType::f32;

  CacheRows() = default;
  CacheRows(Buffer* memory, std::uint64_t first, std::uint32_t row_count, std::uint32_t col_count,
            DType element)
      : buffer(memory),
        offset(first),
        rows(row_count),
        cols(col_count),
        stride(cache_stride(element, col_count)),
        type(element) {}
  CacheRows(const Matrix& m)
      : buffer(m.buffer), offset(m.offset), rows(m.rows), cols(m.cols), stride(m.stride) {}

  CacheRows row_range(std::uint32_t first, std::uint32_t count) const;
  // Requires  type is f32
  Matrix floats() const;
};

// Non-owning keys or values of one sequence, one row per slot. With pages, slot s is row pages[s /
// page_slots] * page_slots + s % page_slots of `memory`; without, row s.
struct CacheView {
  CacheRows memory;
  std::span<const std::uint32_t> pages;
  std::uint32_t page_slots = 0;  // a power of two; 0 without pages

  CacheView() = default;
  // A matrix is a cache without pages. Implicit, so that operations accept one.
  CacheView(const Matrix& rows) : memory(rows) {}
  CacheView(const CacheRows& rows) : memory(rows) {}
  CacheView(const CacheRows& rows, std::span<const std::uint32_t> table, std::uint32_t slots_a_page)
      : memory(rows), pages(table), page_slots(slots_a_page) {}

  bool paged() const { return page_slots != 0; }
  std::uint64_t slots() const {
    return paged() ? pages.size() * std::uint64_t{page_slots} : memory.rows;
  }
  std::uint32_t cols() const { return memory.cols; }
  std::uint64_t row(std::uint32_t slot) const {
    return paged() ? std::uint64_t{pages[slot / page_slots]} * page_slots + slot % page_slots
                   : slot;
  }
  // Contiguous rows from slot `first`, at most `count`.
  // Requires  first + count <= slots(), count > 0
  CacheRows run(std::uint32_t first, std::uint32_t count) const;
};

// Non-owning constant matrix [rows, cols] of any DType, row-major, rows packed; or a stack of
// matrices of equal shape, one per expert, with `rows` counted over all.
struct Weight {
  const Buffer* buffer = nullptr;
  std::uint64_t offset_bytes = 0;
  DType type = DType::f32;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::uint32_t experts = 1;

  explicit operator bool() const { return buffer != nullptr; }
};

// A stored matrix: its bytes as in the file, rows packed.
struct MatrixBytes {
  DType type = DType::f32;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  ByteView bytes;
  std::uint32_t experts = 1;  // as in Weight
  // Each expert's rows are followed by as many of another weight's, except that bytes may end after
  // the last. Only for backends that take it.
  bool is_spaced = false;

  // Distance of experts, in rows. Requires  rows is a multiple of experts
  std::uint64_t expert_step() const {
    return std::uint64_t{is_spaced ? 2u : 1u} * (rows / experts);
  }
};

// Ancestors of one row among the rows of the same call: bit j set = row j is visible. A row always
// sees itself.
struct AncestorMask {
  std::array<std::uint64_t, kMaskRowsMax / 64> bits{};

  void set(std::uint32_t j) { bits[j / 64] |= std::uint64_t{1} << (j % 64); }
  bool test(std::uint32_t j) const { return (bits[j / 64] >> (j % 64)) & 1; }
  // The last visible row before j; 0xFFFFFFFF without one.
  std::uint32_t last_before(std::uint32_t j) const {
    while (j-- > 0) {
      if (test(j)) return j;
    }
    return 0xFFFFFFFF;
  }
};

// y[r] = table[tokens[r]], decoded to float32.
// Shapes    table [vocabulary, dim]; y [tokens, dim]
struct EmbedOp {
  Weight table;
  std::span<const std::uint32_t> tokens;
  Matrix y;
};

// Whether a result replaces y or is added to it.
enum class Into : std::uint8_t { overwrite, accumulate };

// y[r,i] = (accumulate ? y[r,i] : 0) + x[r,i] * weight[i % dim] / sqrt(mean_j x[r,j]^2 + epsilon),
// where j runs over the group of dim columns that has i: one group for a layer's norm, one per head
// for queries and keys. y may be x, unless it accumulates.
// Source    Zhang and Sennrich 2019; epsilon as in Llama
// Shapes    x, y [rows, groups * dim]; weight [1, dim] f32
struct RmsNormOp {
  Matrix x;
  Weight weight;
  Matrix y;
  float epsilon;
  Into into = Into::overwrite;
};

// y[r,o] = (accumulate ? y[r,o] : 0) + sum_i x[r,i] * weight[o,i] + bias[o]
// Shapes    x [rows, in]; weight [out, in]; bias [1, out] f32 or absent; y [rows, out], not x
// Requires  weight comes from upload_matrix
// Backends may round activations of quantised weights to int8, with one scale per 32 columns (CUDA:
// 128): an error of at most scale / 2 = largest / 254 for each x[r,i]. The CPU's does.
struct MatmulOp {
  Matrix x;
  Weight weight;
  Weight bias;
  Matrix y;
  Into into = Into::overwrite;
};

// Rotates the first `rotated` dimensions of each head of x in place: those of row r by the angles
// of positions[r]. RopeStyle::halves pairs (j, j + rotated / 2). rotated == 0 changes nothing.
// Shapes    x [rows, heads * head_dim]; cos_sin [positions_max, rotated]: cosines of the rotated /
// 2
//           frequencies, then sines; absent if rotated == 0
// Requires  positions[r] < cos_sin.rows; rotated is even, <= head_dim
struct RopeOp {
  Matrix x;
  std::span<const std::uint32_t> positions;
  Matrix cos_sin;
  std::uint32_t head_dim;
  std::uint32_t rotated;
  RopeStyle style;
};

// Copies the rows of x to slots first.. of cache, rounded to nearest even. Finite values beyond
// float16's range become its largest, 65504: an infinite key would make every score infinite or
// NaN. Infinities and NaN stay; in a block of int8, they make all elements NaN (kCacheTypes).
// Shapes    x [rows, cols]; cache [slots, cols]
struct StoreOp {
  Matrix x;
  CacheView cache;
  std::uint32_t first;
};

// Rotates queries and keys as RopeOp does, then stores keys and values as StoreOp does, for several
// sequences with consecutive rows. Rotated keys may exist in the caches only: the rows of k are
// undefined afterwards.
// Shapes    q [rows, query_cols]; k, v [rows, kv_cols]; rows is the sum over the sequences
// Requires  a sequence's keys and values share one page table and one type
struct RopeStoreOp {
  struct Sequence {
    std::uint32_t rows;
    CacheView keys;
    CacheView values;
    std::uint32_t first;  // slot
  };
  Matrix q;
  Matrix k;
  Matrix v;
  std::span<const std::uint32_t> positions;
  Matrix cos_sin;
  std::uint32_t head_dim;
  std::uint32_t rotated;
  RopeStyle style;
  std::span<const Sequence> sequences;
};

// y[r] = softmax(scale * q[r] . K) V per head, over the slots visible to row r: 0..prefix-1, then
// prefix + j for every j in masks[r]. Sums run in slot order, so a path through a tree gets the
// same bits as the same tokens in sequence.
//
// With a window, row r sees only the keys whose position is above positions[r] - window. The
// position of a key is its index among the slots that row r would see without a window: the slot
// itself inside the prefix, then one more per ancestor. Slots outside have no effect, whatever they
// hold: the steps of sums are aligned to positions, not to the window.
//
// With sinks, each head's softmax has one more score, sinks[head], without a value.
// Source    Longformer (windows); Xiao et al. 2024, Efficient Streaming Language Models with
//           Attention Sinks, as in gpt-oss
// Shapes    q, y [rows, query_cols]; keys, values [slots, kv_cols]; sinks [1, query_heads] f32 or
//           absent
// Keys and values of other types are converted to float32; all arithmetic is float32.
// Requires  masks is empty (rows see only the prefix, prefix > 0) or has one entry per row;
//           keys and values share one page table and one type; positions has one entry per row if
//           there is a window, and each row sees at least one slot
struct AttentionOp {
  Matrix q;
  CacheView keys;
  CacheView values;
  std::uint32_t prefix;
  std::span<const AncestorMask> masks;
  HeadShape heads;
  Matrix y;
  float scale;
  std::uint32_t window = 0;  // 0: none
  std::span<const std::uint32_t> positions = {};
  Weight sinks = {};

  // First position in row r's window.
  std::uint32_t window_begin(std::uint32_t r) const {
    return window != 0 && positions[r] >= window ? positions[r] - window + 1 : 0;
  }
};

// Full attention within groups of consecutive rows, with scores divided by sqrt(head_dim); groups
// do not see each other. LSA uses it over the layers of one position. Source    Mixture of
// Attentions, section 3 (layer self-attention) Shapes    q, y [groups * group_rows, query_cols]; k,
// v [groups * group_rows, kv_cols]
struct GroupAttentionOp {
  Matrix q;
  Matrix k;
  Matrix v;
  std::uint32_t group_rows;
  HeadShape heads;
  Matrix y;
};

// y[r,i] = activation(gate[r,i]) * up[r,i]. A gate of one column multiplies all columns of its row.
// Activation::clamped is gate' * sigmoid(1.702 gate') * (up' + 1) with gate' = min(gate, 7) and up'
// = up limited to [-7, 7]. y may be up, or a gate of its shape. Source    Shazeer 2020, GLU
// Variants Improve Transformer; clamped as in gpt-oss Shapes    up, y [rows, cols]; gate [rows,
// cols] or [rows, 1]
struct GateOp {
  Matrix gate;
  Matrix up;
  Matrix y;
  Activation activation;
};

// x[r,i] *= factor
struct ScaleOp {
  Matrix x;
  float factor;
};

// x[r,i] = cap * tanh(x[r,i] / cap), within 4e-7 * cap
// Source    Gemma 2
// Requires  cap > 0
struct SoftCapOp {
  Matrix x;
  float cap;
};

// Moves slots of a cache to its front: slot first + i = slot slots[i]. Slots increase and slots[i]
// >= first + i, so a forward move in place is safe.
struct CompactOp {
  CacheView cache;
  std::uint32_t first;
  std::span<const std::uint32_t> slots;
};

// LSA's input: row p * layers + l of y is [K_head0 | V_head0 | K_head1 | V_head1 | ...] of layer l
// at cache slot slots[p]. Keys are returned in RopeStyle::halves order for either style of the
// cache, so that one set of LSA weights fits files of both styles.
// Source    Mixture of Attentions; layout of its released code
// Shapes    keys[l], values[l] [slots, kv_cols]; y [slots * layers, 2 * kv_cols]
// Requires  all share one page table and one type
struct GatherLayersOp {
  std::span<const CacheView> keys;
  std::span<const CacheView> values;
  std::span<const std::uint32_t> slots;
  HeadShape heads;
  RopeStyle style;
  Matrix y;
};

// y[g] = mean of rows g * group_rows .. of x.
// Shapes    x [groups * group_rows, cols]; y [groups, cols]
struct GroupMeanOp {
  Matrix x;
  std::uint32_t group_rows;
  Matrix y;
};

// Parent of the first row of a path: the sequence's state itself.
inline constexpr std::uint32_t kNoParent = 0xFFFFFFFF;

// Rows of one sequence in a recurrent operation. The state belongs to the settled positions. Rows
// of a draft leave it unchanged; `kept` has the inputs that rebuild their states. A draft's tree
// may grow over several calls.
//
// A path's state and results have the same bits however its rows came: one by one, in a chunk, as
// a branch of a tree, in several calls, or through `pending`.
//
// Requires  rows <= kMaskRowsMax; first + rows - settled <= min(kept.rows, kMaskRowsMax)
struct RecurrentRows {
  std::uint32_t rows;  // of this call
  Matrix state;        // shape per operation
  Matrix kept;         // [any number, kept columns] of the sequence
  // Rows of `kept` as calls before left them: a path, folded into the state first.
  std::span<const std::uint32_t> pending;
  // Leading rows of this call, a chain after the state and `pending`. They are folded into the
  // state as well, and not kept.
  std::uint32_t settled;
  // Row of `kept` for this call's first unsettled row; the others follow. If above 0, the call
  // continues a tree, whose rows below `first` stay: `pending` is empty and `settled` is 0.
  std::uint32_t first;
  // [first + rows - settled] row before each row of `kept`, also of earlier calls: a row less than
  // its own, or kNoParent, the state after `pending` and the settled rows.
  std::span<const std::uint32_t> parents;

  std::uint32_t drafted() const { return rows - settled; }
};

// Causal depthwise convolution along each row's path: y[r,c] = activation(sum_j weight[c,j] *
// u_j[c]), where u_0..u_{taps-1} are the inputs of the path's last taps positions, row r last.
// Positions before the start are zero, as a zeroed state is.
// Source    Gulati et al. 2020 (depthwise); Qwen3-Next and LFM2 use it before mixing
// Shapes    x, y [rows, cols], y not x; weight [cols, taps] f32; state [taps - 1, cols], inputs of
//           the last settled positions, oldest first; kept columns = cols, the inputs
// Requires  1 < taps <= kTapsMax; activation silu or identity
struct ConvolutionOp {
  Matrix x;
  Weight weight;
  Activation activation;
  Matrix y;
  std::span<const RecurrentRows> sequences;
};

// Gated delta rule. Per value head h, with q and k of key head h % key_heads, both divided by
// sqrt(sum of squares + epsilon), g = exp(decay * softplus(alpha + time_bias)) and b =
// sigmoid(beta), each row updates the matrix M of its path:
//   M = g M;  M = M + k (b (v - M^T k))^T;  y = M^T q / sqrt(dim)
// Source    Yang, Kautz and Hatamizadeh 2024, equation 10; as in Qwen3-Next
// Shapes    qkv [rows, (2 * key_heads + value_heads) * dim], all q, then k, then v; alpha, beta
//           [rows, value_heads]; decay, time_bias [1, value_heads] f32; y [rows, value_heads *
//           dim], not qkv; state [value_heads * dim, dim]: M per value head, one row per key
//           index; kept columns = (key_heads + value_heads) * dim + 2 * value_heads: divided k, v,
//           g, b
// Requires  dim <= kDeltaDimMax; key_heads divides value_heads
struct DeltaRuleOp {
  Matrix qkv;
  Matrix alpha;
  Matrix beta;
  Weight decay;
  Weight time_bias;
  std::uint32_t key_heads;
  std::uint32_t value_heads;
  std::uint32_t dim;
  float epsilon;
  Matrix y;
  std::span<const RecurrentRows> sequences;

  std::uint32_t key_cols() const { return key_heads * dim; }
  std::uint32_t value_cols() const { return value_heads * dim; }
  std::uint32_t kept_cols() const { return key_cols() + value_cols() + 2 * value_heads; }
};

// The k largest entries per row of log-softmax(logits), best first, ties to the lowest index.
// Shapes    logits [rows, vocabulary]; tokens, log_probs [rows * k], host memory, row-major
// Requires  1 <= k <= min(vocabulary, 256). Waits.
struct TopKOp {
  Matrix logits;
  std::uint32_t k;
  std::span<std::uint32_t> tokens;
  std::span<float> log_probs;
};

// tokens[r] = index of the largest entry of row r, ties to the lowest. Waits.
struct ArgmaxOp {
  Matrix logits;
  std::span<std::uint32_t> tokens;
};

// Chooses experts per row: experts[r,u] is the index of the u-th largest logit, as a number, ties
// to the lowest index. weights[r] is the softmax over the chosen logits: softmax over all, divided
// by the sum of the chosen, is the same. A lower bound of 2^-14 on that sum never applies, as the
// sum is at least used / experts.
// Shapes    logits [rows, experts]; experts, weights [rows, used]
// Requires  1 <= used <= min(experts, kExpertsUsedMax); experts <= kExpertsMax
// NaN sorts lowest and makes the row's weights NaN if chosen.
struct RouteOp {
  Matrix logits;
  std::uint32_t used;
  Matrix experts;
  Matrix weights;
};

// Matmuls with the matrices of chosen experts: y[r * used + u] = W_e x' + b_e with
// e = experts[r,u]; x' is x[r] if x.rows is experts.rows, else x[r * used + u].
// Shapes    x [rows, in] or [rows * used, in]; weight: a stack of two or more [out, in]; bias
//           [stack, out] f32 or absent; experts [rows, used]; y [rows * used, out], not x
// Requires  weight comes from upload_matrix; experts from route, for as many experts
// Activations may be rounded as in MatmulOp.
struct ExpertMatmulOp {
  Matrix x;
  Weight weight;
  Weight bias;
  Matrix experts;
  Matrix y;
};

// y[r] += sum_u weights[r,u] * x[r * used + u], in the order of u.
// Shapes    x [rows * used, cols]; weights [rows, used]; y [rows, cols], not x
struct MixOp {
  Matrix x;
  Matrix weights;
  Matrix y;
};

// A compute device. Used by one thread at a time.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  // Meter of the backend's memory and of everything built on it; never null.
  const std::shared_ptr<MemoryMeter>& meter() const { return meter_; }
  // True if caches may have pages. Devices with a single sequence need none.
  virtual bool takes_pages() const { return true; }
  // True if caches may have that type. Devices that only hold a drafter's cache need just f32.
  virtual bool takes_cache_type(DType type) const { return is_cache_type(type); }
  // Widest head that attention takes.
  virtual std::uint32_t head_dim_max() const { return kHeadDimMax; }
  // Type of drafters' keys and values.
  virtual DType drafter_cache_type() const { return DType::f32; }

  // True if upload_matrix takes experts that are spaced.
  virtual bool takes_spaced_experts() const { return false; }
  // True if weights may be read where they were uploaded from.
  virtual bool aliases_weights() const { return false; }

  // False if memory is only planned, so initial values need not be computed.
  virtual bool keeps_numbers() const { return true; }

  // Zeroed memory for `floats` floats. Throws DeviceError if out of memory.
  virtual std::unique_ptr<Buffer> allocate(std::uint64_t floats) = 0;
  // A constant copy of `bytes` or, if the backend computes in host memory, an alias, which `bytes`
  // must then outlive. For norms and biases.
  virtual std::unique_ptr<Buffer> upload(ByteView bytes) = 0;
  // An embedding table [rows, cols], likewise. A backend may store another layout.
  virtual std::unique_ptr<Buffer> upload_table(const MatrixBytes& table) {
    return upload(table.bytes);
  }
  // A weight [rows, cols] for matmul only: a backend may reorder it, or alias it as above; a stack
  // of experts may be read at any later call. A Weight in it has its shape and no offset.
  // Requires  bytes.size() == rows * row_bytes(type, cols), unless spaced; rows is a multiple of
  //           experts
  virtual std::unique_ptr<Buffer> upload_matrix(const MatrixBytes& matrix) = 0;

  virtual void write(const Matrix& to, std::span<const float> from) = 0;
  // Starts all enqueued work and waits for it. For callers that read no result but must be done
  // when they return, so that others get their turn.
  virtual void wait() = 0;
  // Waits, too. `to` is packed: rows * cols.
  virtual void read(const Matrix& from, std::span<float> to) = 0;
  // Like read(), for rows of a cache, converted to float32.
  virtual void read_cache(const CacheRows& from, std::span<float> to) = 0;

  virtual void embed(const EmbedOp& op) = 0;
  virtual void rms_norm(const RmsNormOp& op) = 0;
  virtual void matmul(const MatmulOp& op) = 0;
  // Matmuls of the same x, such as queries, keys and values; fused if that is faster.
  virtual void matmuls(std::span<const MatmulOp> ops);
  virtual void rope(const RopeOp& op) = 0;
  virtual void store(const StoreOp& op) = 0;
  virtual void attention(const AttentionOp& op) = 0;
  // Several operations of a kind, e.g. for all sequences of a pass; fused if that is faster.
  // Requires  none touches the output of another
  virtual void stores(std::span<const StoreOp> ops);
  virtual void attentions(std::span<const AttentionOp> ops);
  // An operation and the matmuls that read its result; fused if that is faster. The rows of its y
  // are undefined afterwards.
  // Requires  each matmul's x is the y of the operation
  virtual void norm_matmuls(const RmsNormOp& norm, std::span<const MatmulOp> products);
  virtual void gate_matmul(const GateOp& gated, const MatmulOp& product);
  virtual void rope_store(const RopeStoreOp& op);
  virtual void group_attention(const GroupAttentionOp& op) = 0;
  virtual void gate(const GateOp& op) = 0;
  virtual void compact(const CompactOp& op) = 0;
  virtual void gather_layers(const GatherLayersOp& op) = 0;
  virtual void group_mean(const GroupMeanOp& op) = 0;
  virtual void top_k(const TopKOp& op) = 0;
  virtual void argmax(const ArgmaxOp& op) = 0;
  virtual void scale(const ScaleOp& op) = 0;
  virtual void soft_cap(const SoftCapOp& op) = 0;
  virtual void convolve(const ConvolutionOp& op) = 0;
  virtual void delta_rule(const DeltaRuleOp& op) = 0;
  virtual void route(const RouteOp& op) = 0;
  virtual void expert_matmul(const ExpertMatmulOp& op) = 0;
  virtual void mix(const MixOp& op) = 0;

 protected:
  explicit Backend(std::shared_ptr<MemoryMeter> meter = nullptr)
      : meter_(meter != nullptr ? std::move(meter) : std::make_shared<MemoryMeter>()) {}

 private:
  std::shared_ptr<MemoryMeter> meter_;
};

struct CpuBackendOptions {
  std::uint32_t threads;                         // 0: one per fast core
  std::shared_ptr<MemoryMeter> meter = nullptr;  // null: its own meter, without a limit
  DType drafter_cache_type = DType::f32;
  // Bound on experts kept in the order of kernels (expert_stacks.h). 0: half of the machine's
  // memory
  std::uint64_t expert_bytes = 0;
};
// CPU backend with kernels/cpu for the instruction set found at run time.
std::unique_ptr<Backend> make_cpu_backend(const CpuBackendOptions& options);

}  // namespace edgedraft
