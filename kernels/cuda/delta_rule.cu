#include "kernels/cuda/device.cuh"

namespace edgedraft::cuda {
namespace {

// --- inputs ---

constexpr std::uint32_t kRowThreads = 256;

__device__ inline float* scratch_row(const DeltaRuleArgs& a, std::uint32_t row) {
  return a.scratch +
         std::size_t{row} * delta_rule_scratch_floats(a.key_heads, a.value_heads, a.dim);
}

// One block per row, one warp per head of q and k, one thread per value head's gates. These are
// computed in float64: errors of a decay multiply over thousands of positions.
__global__ void divide_kernel(DeltaRuleArgs a) {
  take_turn();
  const std::uint32_t row = blockIdx.x;
  const std::uint32_t lane = threadIdx.x % kWarp;
  float* to = scratch_row(a, row);
  const float* from = a.qkv.data + row * a.qkv.stride;
  for (std::uint32_t head = threadIdx.x / kWarp; head < 2 * a.key_heads;
       head += kRowThreads / kWarp) {
    const float* x = from + head * a.dim;
    float sum = 0.0f;
    for (std::uint32_t i = lane; i < a.dim; i += kWarp) sum = fmaf(x[i], x[i], sum);
    const float scale = 1.0f / sqrtf(warp_sum(sum) + a.epsilon);
    for (std::uint32_t i = lane; i < a.dim; i += kWarp) to[head * a.dim + i] = x[i] * scale;
  }
  float* gates = to + 2 * a.key_heads * a.dim;
  for (std::uint32_t head = threadIdx.x; head < a.value_heads; head += kRowThreads) {
    const double time = static_cast<double>(a.alpha.data[row * a.alpha.stride + head]) +
                        static_cast<double>(a.time_bias[head]);
    const double softplus = time > 40.0 ? time : log1p(exp(time));
    const double beta = static_cast<double>(a.beta.data[row * a.beta.stride + head]);
    gates[head] = static_cast<float>(exp(static_cast<double>(a.decay[head]) * softplus));
    gates[a.value_heads + head] = static_cast<float>(1.0 / (1.0 + exp(-beta)));
  }
}

// One block per row. Runs after settle_kernel, which reads the kept rows of calls before.
__global__ void keep_kernel(DeltaRuleArgs a) {
  take_turn();
  const RecurrentSequence& s = a.call.sequences[a.call.owners[blockIdx.x]];
  const std::uint32_t r = blockIdx.x - s.first;
  if (r < s.settled) return;
  const std::uint32_t key_cols = a.key_heads * a.dim;
  const std::uint32_t value_cols = a.value_heads * a.dim;
  const float* divided = scratch_row(a, blockIdx.x);
  const float* values = a.qkv.data + blockIdx.x * a.qkv.stride + 2 * key_cols;
  float* kept = s.kept + (s.kept_first + r - s.settled) * s.kept_stride;
  for (std::uint32_t i = threadIdx.x; i < key_cols; i += kRowThreads) {
    kept[i] = divided[key_cols + i];
  }
  for (std::uint32_t i = threadIdx.x; i < value_cols; i += kRowThreads) {
    kept[key_cols + i] = values[i];
  }
  for (std::uint32_t i = threadIdx.x; i < 2 * a.value_heads; i += kRowThreads) {
    kept[key_cols + value_cols + i] = divided[2 * key_cols + i];
  }
}

// --- states ---

// Lanes of a warp share a column of the state: lane l has column l % 4 and key indices l / 4 + 8 i.
constexpr std::uint32_t kColumns = 4;
constexpr std::uint32_t kParts = kWarp / kColumns;
constexpr std::uint32_t kThreads = 128;
constexpr std::uint32_t kBlockColumns = kThreads / kWarp * kColumns;

// Of one row, for one lane.
template <std::uint32_t kIndices>
struct Inputs {
  float q[kIndices];
  float k[kIndices];
  float v;
  float decay;
  float step;
};

// Where a row's inputs lie.
struct InputRow {
  const float* q;
  const float* k;
  const float* v;
  const float* decay;
  const float* step;
};

__device__ inline float column_sum(float x) {
  for (std::uint32_t distance = kWarp / 2; distance >= kColumns; distance /= 2) {
    x += __shfl_xor_sync(kAllLanes, x, static_cast<int>(distance));
  }
  return x;
}

// One lane's share of a column.
template <std::uint32_t kIndices>
class Column {
 public:
  __device__ Column(std::uint32_t dim, std::uint32_t column)
      : dim_(dim), column_(column), part_(threadIdx.x % kWarp / kColumns) {}

  __device__ void load(const float* state, std::size_t stride) {
#pragma unroll
    for (std::uint32_t i = 0; i < kIndices; ++i) {
      m_[i] = has(i) && column_ < dim_ ? state[index(i) * stride + column_] : 0.0f;
    }
  }
  __device__ void store(float* state, std::size_t stride) const {
#pragma unroll
    for (std::uint32_t i = 0; i < kIndices; ++i) {
      if (has(i) && column_ < dim_) state[index(i) * stride + column_] = m_[i];
    }
  }
  __device__ void read(const InputRow& from, Inputs<kIndices>& to) const {
#pragma unroll
    for (std::uint32_t i = 0; i < kIndices; ++i) {
      to.q[i] = has(i) ? from.q[index(i)] : 0.0f;
      to.k[i] = has(i) ? from.k[index(i)] : 0.0f;
    }
    to.v = column_ < dim_ ? from.v[column_] : 0.0f;
    to.decay = *from.decay;
    to.step = *from.step;
  }
  // Updates the state by one row: the only order of operations, for every kind of row. Returns
  // M^T q.
  __device__ float advance(const Inputs<kIndices>& row) {
    float known = 0.0f;
#pragma unroll
    for (std::uint32_t i = 0; i < kIndices; ++i) {
      m_[i] *= row.decay;
      known = fmaf(m_[i], row.k[i], known);
    }
    const float delta = row.step * (row.v - column_sum(known));
    float result = 0.0f;
#pragma unroll
    for (std::uint32_t i = 0; i < kIndices; ++i) {
      m_[i] = fmaf(row.k[i], delta, m_[i]);
      result = fmaf(m_[i], row.q[i], result);
    }
    return column_sum(result);
  }
  __device__ void write(float* y, float value) const {
    if (part_ == 0 && column_ < dim_) y[column_] = value;
  }

 private:
  __device__ std::uint32_t index(std::uint32_t i) const {
    return i * kParts + part_;
  }
  __device__ bool has(std::uint32_t i) const {
    return index(i) < dim_;
  }

  std::uint32_t dim_;
  std::uint32_t column_;
  std::uint32_t part_;
  float m_[kIndices];
};

// Kept rows before a kept row: path[first..], oldest first, in the last places of `path`. Returns
// `first` to all threads.
__device__ inline std::uint32_t find_path(const RecurrentSequence& s, std::uint32_t row,
                                          std::uint32_t* path, std::uint32_t& first) {
  __syncthreads();  // the last path has been used
  if (threadIdx.x == 0) {
    first = kRecurrentRowsMax;
    for (std::uint32_t at = s.parents[row]; at != kNoRow; at = s.parents[at]) path[--first] = at;
  }
  __syncthreads();
  return first;
}

// One block's columns of a value head's state, with the rows of one sequence.
template <std::uint32_t kIndices>
class HeadRows {
 public:
  __device__ HeadRows(const DeltaRuleArgs& a, const RecurrentSequence& s)
      : a_(a),
        s_(s),
        head_(blockIdx.x / blocks_of(a.dim)),
        key_cols_(a.key_heads * a.dim),
        scale_(1.0f / sqrtf(static_cast<float>(a.dim))),
        state_(s.state + std::size_t{head_} * a.dim * s.state_stride),
        column_(a.dim, blockIdx.x % blocks_of(a.dim) * kBlockColumns +
                           threadIdx.x / kWarp * kColumns + threadIdx.x % kColumns) {}

  __host__ __device__ static std::uint32_t blocks_of(std::uint32_t dim) {
    return ceil_div(dim, kBlockColumns);
  }

  __device__ void load_state() { column_.load(state_, s_.state_stride); }
  __device__ void store_state() const { column_.store(state_, s_.state_stride); }
  // Without q.
  __device__ void read_kept(std::uint32_t r, Inputs<kIndices>& to) const {
    const float* kept = s_.kept + r * s_.kept_stride;
    const float* k = kept + head_ % a_.key_heads * a_.dim;
    const float* gates = kept + key_cols_ + a_.value_heads * a_.dim + head_;
    column_.read({k, k, kept + key_cols_ + head_ * a_.dim, gates, gates + a_.value_heads}, to);
  }
  __device__ void read_row(std::uint32_t r, Inputs<kIndices>& to) const {
    const float* q = scratch_row(a_, s_.first + r) + head_ % a_.key_heads * a_.dim;
    const float* gates = scratch_row(a_, s_.first + r) + 2 * key_cols_ + head_;
    const float* values = a_.qkv.data + (s_.first + r) * a_.qkv.stride + 2 * key_cols_;
    column_.read({q, q + key_cols_, values + head_ * a_.dim, gates, gates + a_.value_heads}, to);
  }
  __device__ float advance(const Inputs<kIndices>& row) { return column_.advance(row); }
  __device__ void run_row(std::uint32_t r, const Inputs<kIndices>& row) {
    const float result = column_.advance(row) * scale_;
    column_.write(a_.y.data + (s_.first + r) * a_.y.stride + head_ * a_.dim, result);
  }

 private:
  const DeltaRuleArgs& a_;
  const RecurrentSequence& s_;
  std::uint32_t head_;
  std::uint32_t key_cols_;
  float scale_;
  float* state_;
  Column<kIndices> column_;
};

// Pending and settled rows. The inputs of the next row are loaded while a row updates the state.
template <std::uint32_t kIndices>
__global__ void __launch_bounds__(kThreads) settle_kernel(DeltaRuleArgs a) {
  take_turn();
  const RecurrentSequence& s = a.call.sequences[blockIdx.y];
  if (s.pending_count + s.settled == 0) return;
  HeadRows<kIndices> rows(a, s);
  rows.load_state();
  Inputs<kIndices> next;
  if (s.pending_count > 0) rows.read_kept(s.pending[0], next);
  for (std::uint32_t i = 0; i < s.pending_count; ++i) {
    const Inputs<kIndices> row = next;
    if (i + 1 < s.pending_count) rows.read_kept(s.pending[i + 1], next);
    rows.advance(row);
  }
  if (s.settled > 0) rows.read_row(0, next);
  for (std::uint32_t r = 0; r < s.settled; ++r) {
    const Inputs<kIndices> row = next;
    if (r + 1 < s.settled) rows.read_row(r + 1, next);
    rows.run_row(r, row);
  }
  rows.store_state();
}

// Rows of a draft per block: few, since most paths are much shorter than the tree has rows, so that
// recomputing them side by side is faster. Runs after keep_kernel: paths are kept rows.
constexpr std::uint32_t kDraftRows = 4;

template <std::uint32_t kIndices>
__global__ void __launch_bounds__(kThreads) draft_kernel(DeltaRuleArgs a) {
  take_turn();
  __shared__ std::uint32_t path[kRecurrentRowsMax];
  __shared__ std::uint32_t path_first;
  const RecurrentSequence& s = a.call.sequences[blockIdx.y];
  const std::uint32_t first = s.settled + blockIdx.z * kDraftRows;
  if (first >= s.rows) return;
  const std::uint32_t left = s.rows - first;
  HeadRows<kIndices> rows(a, s);
  for (std::uint32_t r = first; r < first + (left < kDraftRows ? left : kDraftRows); ++r) {
    Inputs<kIndices> row;
    const std::uint32_t kept = s.kept_first + r - s.settled;
    if (r == first || s.parents[kept] != kept - 1) {
      rows.load_state();
      for (std::uint32_t i = find_path(s, kept, path, path_first); i < kRecurrentRowsMax; ++i) {
        rows.read_kept(path[i], row);
        rows.advance(row);
      }
    }
    rows.read_row(r, row);
    rows.run_row(r, row);
  }
}

template <std::uint32_t kIndices>
cudaError_t launch_states(const DeltaRuleArgs& args, cudaStream_t stream) {
  const std::uint32_t columns = args.value_heads * HeadRows<kIndices>::blocks_of(args.dim);
  const std::uint32_t sequences = args.call.sequence_count;
  cudaError_t status =
      launch(settle_kernel<kIndices>, dim3(columns, sequences), kThreads, stream, args);
  if (status != cudaSuccess || args.call.drafts_max == 0) return status;
  status = launch(keep_kernel, dim3(args.call.rows), kRowThreads, stream, args);
  if (status != cudaSuccess) return status;
  const dim3 grid(columns, sequences, ceil_div(args.call.drafts_max, kDraftRows));
  return launch(draft_kernel<kIndices>, grid, kThreads, stream, args);
}

}  // namespace

cudaError_t delta_rule(const DeltaRuleArgs& args, cudaStream_t stream) {
  if (args.dim > 32 * kParts) return cudaErrorInvalidValue;
  const cudaError_t status = launch(divide_kernel, dim3(args.call.rows), kRowThreads, stream, args);
  if (status != cudaSuccess) return status;
  if (args.dim <= 4 * kParts) return launch_states<4>(args, stream);
  if (args.dim <= 16 * kParts) return launch_states<16>(args, stream);
  return launch_states<32>(args, stream);
}

}  // namespace edgedraft::cuda
