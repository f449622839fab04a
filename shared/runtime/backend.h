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

// The operator contracts. Layers are written once on these; tests/support/reference_backend.h is
// their executable specification.
//
// Promises that hold for every operation of every backend:
//  - Row-major float32 activations, last dimension contiguous.
//  - Batch invariance: a row's result depends on that row alone, bit for bit, never on which or how
//    many rows share the call. Sums run in one order for every width.
//  - Enqueues; `Backend::wait` and `Backend::read` wait. Throws DeviceError if work cannot be
//    enqueued.
//  - Shapes are the caller's duty and EDGEDRAFT_CHECKed.
namespace edgedraft {

// At most this many rows a call that has a tree mask: a root and 255 nodes, or a chunk of a prompt.
inline constexpr std::uint32_t kMaskRowsMax = 256;

// The environment failed: device lost, out of device memory.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Memory of one backend. Released with its owner, which must outlive every Matrix and Weight in it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

 protected:
  Buffer() = default;
};

// A float32 matrix in a Buffer: rows x cols, row r at offset + r * stride (in floats). Not an
// owner.
struct Matrix {
  Buffer* buffer = nullptr;
  std::uint64_t offset = 0;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::uint64_t stride = 0;

  Matrix row_range(std::uint32_t first, std::uint32_t count) const;
  Matrix column_range(std::uint32_t first, std::uint32_t count) const;
};

// Rows of keys or values as they are stored: a Matrix whose elements are f32, f16 or bf16, and
// whose offset and stride count these. Not an owner.
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
        stride(col_count),
        type(element) {}
  CacheRows(const Matrix& m)
      : buffer(m.buffer), offset(m.offset), rows(m.rows), cols(m.cols), stride(m.stride) {}

  CacheRows row_range(std::uint32_t first, std::uint32_t count) const;
  // Requires  type is f32
  Matrix floats() const;
};

// Whether keys and values may be stored in that type: f32, f16 or bf16.
bool is_cache_type(DType type);
// What so many numbers of such a type take.
std::uint64_t cache_bytes(DType type, std::uint64_t count);

// Keys or values of one sequence, a row a slot. With pages, slots stand page_slots together: slot s
// is row pages[s / page_slots] * page_slots + s % page_slots of `memory`. Without, it is row s. Not
// an owner.
struct CacheView {
  CacheRows memory;
  std::span<const std::uint32_t> pages;
  std::uint32_t page_slots = 0;  // a power of two; 0 without pages

  CacheView() = default;
  // A matrix is a cache without pages. Not explicit, so that operations take one.
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
  // The slots from `first` on whose rows follow each other, `count` of them at most.
  // Requires  first + count <= slots(), count > 0
  CacheRows run(std::uint32_t first, std::uint32_t count) const;
};

// A constant matrix [rows, cols] of any DType, row-major, rows packed. Not an owner.
struct Weight {
  const Buffer* buffer = nullptr;
  std::uint64_t offset_bytes = 0;
  DType type = DType::f32;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;

  explicit operator bool() const { return buffer != nullptr; }
};

// A stored matrix: its bytes as in a file, rows packed.
struct MatrixBytes {
  DType type = DType::f32;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  ByteView bytes;
};

// The ancestors of one row among the rows of the same call: bit j set = row j is visible. A row
// always sees itself.
struct AncestorMask {
  std::array<std::uint64_t, kMaskRowsMax / 64> bits{};

  void set(std::uint32_t j) { bits[j / 64] |= std::uint64_t{1} << (j % 64); }
  bool test(std::uint32_t j) const { return (bits[j / 64] >> (j % 64)) & 1; }
};

// y[r] = table[tokens[r]], decoded to float32.
// Shapes    table [vocabulary, dim]; y [tokens, dim]
struct EmbedOp {
  Weight table;
  std::span<const std::uint32_t> tokens;
  Matrix y;
};

// y[r,i] = x[r,i] * weight[i] / sqrt(mean_j x[r,j]^2 + epsilon). y may be x.
// Source    Zhang and Sennrich 2019; epsilon as in Llama
// Shapes    x, y [rows, dim]; weight [1, dim] f32
struct RmsNormOp {
  Matrix x;
  Weight weight;
  Matrix y;
  float epsilon;
};

// y[r,o] = (accumulate ? y[r,o] : 0) + sum_i x[r,i] * weight[o,i] + bias[o]
// Shapes    x [rows, in]; weight [out, in]; bias [1, out] f32 or absent; y [rows, out], not x
// Requires  weight comes from upload_matrix
// Backends may multiply quantised weights with activations that they round to int8, each stretch of
// 128 with a scale of its own: an error of at most scale / 2 = largest / 254 for each x[r,i]. The
// CPU's does.
struct MatmulOp {
  enum class Into : std::uint8_t { overwrite, accumulate };
  Matrix x;
  Weight weight;
  Weight bias;
  Matrix y;
  Into into = Into::overwrite;
};

// Rotates x in place: head h of row r by the angles of positions[r].
// Shapes    x [rows, heads * head_dim]; cos_sin [positions_max, head_dim]: cosines of the
// head_dim/2
//           frequencies, then sines
// Requires  positions[r] < cos_sin.rows
struct RopeOp {
  Matrix x;
  std::span<const std::uint32_t> positions;
  Matrix cos_sin;
  std::uint32_t head_dim;
  RopeStyle style;
};

// Copies the rows of x to slots first.. of cache, rounded to its type: to nearest, ties to even.
// Finite numbers beyond float16's become its largest one, 65504: a key that an infinity stood in
// would make every score with it infinite or NaN. Infinities and NaN stay what they are.
// Shapes    x [rows, cols]; cache [slots, cols]
struct StoreOp {
  Matrix x;
  CacheView cache;
  std::uint32_t first;
};

// Rotates queries and keys, as RopeOp does, then stores keys and values, as StoreOp does: those of
// several sequences, whose rows follow each other. Rotated keys may then stand in caches alone:
// afterwards the rows of k are anything.
// Shapes    q [rows, query_cols]; k, v [rows, kv_cols]; the sequences' rows add up to theirs
// Requires  a sequence's keys and values have one page table and one type
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
  RopeStyle style;
  std::span<const Sequence> sequences;
};

// y[r] = softmax(q[r] . K / sqrt(head_dim)) V over the slots that row r sees, head by head: slots
// 0..prefix-1, then slot prefix + j for every j in masks[r]. Sums run over visible slots in slot
// order, so a path through a tree gives the bits that the same tokens give in a row.
// Shapes    q, y [rows, query_cols]; keys, values [slots, kv_cols]
// Keys and values of 16 bits count as the numbers that they stand for; everything else is float32.
// Requires  masks is empty (no row sees more than the prefix, prefix > 0) or has one entry a row;
//           keys and values have one page table and one type
struct AttentionOp {
  Matrix q;
  CacheView keys;
  CacheView values;
  std::uint32_t prefix;
  std::span<const AncestorMask> masks;
  HeadShape heads;
  Matrix y;
};

// Full attention within groups of consecutive rows; groups do not see each other. LSA's attention
// over the layers of one position.
// Source    Mixture of Attentions, section 3 (layer self-attention)
// Shapes    q, y [groups * group_rows, query_cols]; k, v [groups * group_rows, kv_cols]
struct GroupAttentionOp {
  Matrix q;
  Matrix k;
  Matrix v;
  std::uint32_t group_rows;
  HeadShape heads;
  Matrix y;
};

// y[r,i] = silu(gate[r,i]) * up[r,i]. y may be gate or up.
struct SwigluOp {
  Matrix gate;
  Matrix up;
  Matrix y;
};

// Moves slots of a cache to its front part, in order: slot first + i = slot slots[i]. Slots
// increase and slots[i] >= first + i, so the move may be done in place, forwards.
struct CompactOp {
  CacheView cache;
  std::uint32_t first;
  std::span<const std::uint32_t> slots;
};

// LSA's input: row p * layers + l of y is [K_head0 | V_head0 | K_head1 | V_head1 | ...] of layer l
// at cache slot slots[p]. Keys come out in RopeStyle::halves order whatever the cache holds, so
// that one set of LSA weights fits files of both styles.
// Source    Mixture of Attentions; layout of its released code
// Shapes    keys[l], values[l] [slots, kv_cols]; y [slots * layers, 2 * kv_cols]
// Requires  all have one page table and one type
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

// The k largest entries a row of log-softmax(logits), best first, ties by lowest index.
// Shapes    logits [rows, vocabulary]; tokens, log_probs [rows * k], host memory, row-major
// Requires  1 <= k <= min(vocabulary, 256). Waits.
struct TopKOp {
  Matrix logits;
  std::uint32_t k;
  std::span<std::uint32_t> tokens;
  std::span<float> log_probs;
};

// tokens[r] = index of the largest entry of row r, ties to the lowest index. Waits.
struct ArgmaxOp {
  Matrix logits;
  std::span<std::uint32_t> tokens;
};

// One place to compute. One thread at a time.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  // Counts what it holds, if it is one that counts, and what is built on it; never null.
  const std::shared_ptr<MemoryMeter>& meter() const { return meter_; }
  // Whether caches may have pages. Devices that serve one sequence need none.
  virtual bool takes_pages() const { return true; }
  // Whether caches may have that type. Devices that hold a drafter's cache alone need f32 only.
  virtual bool takes_cache_type(DType type) const { return is_cache_type(type); }
  // The one that drafters keep their keys and values in.
  virtual DType drafter_cache_type() const { return DType::f32; }

  // False where memory is only planned: what would be written to it need not be made.
  virtual bool keeps_numbers() const { return true; }

  // Zeroed memory for `floats` numbers. Throws DeviceError when there is none.
  virtual std::unique_ptr<Buffer> allocate(std::uint64_t floats) = 0;
  // A constant copy or, where the backend can compute in host memory, an alias of `bytes`, which
  // must then outlive the result. For embedding tables, norms and biases.
  virtual std::unique_ptr<Buffer> upload(ByteView bytes) = 0;
  // A weight [rows, cols] for matmul and nothing else: a backend may keep it in an order of its
  // own, or alias it as above. A Weight in it has its shape and no offset. Requires  bytes.size()
  // == rows * row_bytes(type, cols)
  virtual std::unique_ptr<Buffer> upload_matrix(const MatrixBytes& matrix) = 0;

  virtual void write(const Matrix& to, std::span<const float> from) = 0;
  // Starts everything enqueued and waits until it has run: for callers whose work is to be done
  // when they return, so that others have their turns, though they read no result.
  virtual void wait() = 0;
  // Waits in the same way. `to` is packed: rows * cols.
  virtual void read(const Matrix& from, std::span<float> to) = 0;
  // The same of rows of a cache, as float32.
  virtual void read_cache(const CacheRows& from, std::span<float> to) = 0;

  virtual void embed(const EmbedOp& op) = 0;
  virtual void rms_norm(const RmsNormOp& op) = 0;
  virtual void matmul(const MatmulOp& op) = 0;
  // Products of the same x, such as queries, keys and values: at once where that is faster.
  virtual void matmuls(std::span<const MatmulOp> ops);
  virtual void rope(const RopeOp& op) = 0;
  virtual void store(const StoreOp& op) = 0;
  virtual void attention(const AttentionOp& op) = 0;
  // Several of a kind, such as those of all sequences of a pass: at once where that is faster.
  // Requires  none touches what another one writes
  virtual void stores(std::span<const StoreOp> ops);
  virtual void attentions(std::span<const AttentionOp> ops);
  // An operation and all that read its result, at once where that is faster. The result itself may
  // then be nowhere: afterwards the rows of its y are anything.
  // Requires  products' x is the y of what is in front of them
  virtual void norm_matmuls(const RmsNormOp& norm, std::span<const MatmulOp> products);
  virtual void swiglu_matmul(const SwigluOp& swiglu, const MatmulOp& product);
  virtual void rope_store(const RopeStoreOp& op);
  virtual void group_attention(const GroupAttentionOp& op) = 0;
  virtual void swiglu(const SwigluOp& op) = 0;
  virtual void compact(const CompactOp& op) = 0;
  virtual void gather_layers(const GatherLayersOp& op) = 0;
  virtual void group_mean(const GroupMeanOp& op) = 0;
  virtual void top_k(const TopKOp& op) = 0;
  virtual void argmax(const ArgmaxOp& op) = 0;

 protected:
  explicit Backend(std::shared_ptr<MemoryMeter> meter = nullptr)
      : meter_(meter != nullptr ? std::move(meter) : std::make_shared<MemoryMeter>()) {}

 private:
  std::shared_ptr<MemoryMeter> meter_;
};

struct CpuBackendOptions {
  std::uint32_t threads;                         // 0: one per fast core
  std::shared_ptr<MemoryMeter> meter = nullptr;  // null: one of its own, without a limit
};
// The CPU at work: kernels/cpu for the instruction set found at run time.
std::unique_ptr<Backend> make_cpu_backend(const CpuBackendOptions& options);

}  // namespace edgedraft
