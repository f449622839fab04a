#pragma once

#include "kernels/cuda/ops.h"

// Attention of the rows of a pass, and within groups of rows. Calls are as in ops.h.
namespace edgedraft::cuda {

inline constexpr std::uint32_t kMaskWords = 4;  // 64 bits each
// Visible slots per split, counted per row; splits per chunk; splits per section. Splits never
// depend on the batch: a row's splits are the same wherever its slots lie.
inline constexpr std::uint32_t kSplitSlots = 32;
inline constexpr std::uint32_t kChunkSplits = 4;
inline constexpr std::uint32_t kSectionSplits = 16;

// Maximum slots after the prefix that a mask covers.
inline constexpr std::uint32_t kTailMax = 256;

// Attention over rows of any number of sequences is one list of blocks, as long as the work. Data
// that changes per pass is in a table in device memory: sequences first, then rows, masks and page
// tables, so that launches repeat.
//
// One sequence's rows. `*_at` count 32-bit words from the table's start.
struct alignas(16) AttentionSequence {
  std::uint32_t first_block;  // among all sequences' blocks, per key-value head
  std::uint32_t first_row;
  std::uint32_t rows;  // 0: after the last sequence; a launch may have unused blocks
  std::uint32_t prefix;
  std::uint32_t tail_slots;  // slots after the prefix that masks cover
  std::uint32_t masks_at;    // [rows, kMaskWords] of 64 bits, if there are tail slots
  std::uint32_t pages_at;    // if caches have pages
  std::uint32_t first_sum;   // among all sequences' sums in scratch
  std::uint32_t begin;       // first rank in any row's window
  std::uint32_t last_begin;  // first rank in every row's window
  std::uint32_t unused[2];
};
// One row; the sum of piece i of head h is first_sum + h * head_sums + i in scratch. Pieces before
// the windows have none, so first_sum may be negative.
struct alignas(16) AttentionRow {
  std::uint32_t visible;  // slots, with those before its window
  std::int32_t first_sum;
  std::uint32_t head_sums;
  std::uint32_t begin;  // first rank in its window
};
inline constexpr std::uint32_t kSequenceWords = sizeof(AttentionSequence) / 4;
inline constexpr std::uint32_t kRowWords = sizeof(AttentionRow) / 4;

// Launch shape of a call; results do not depend on it. Counts are rounded up, so that launches
// repeat while texts grow.
struct AttentionPlan {
  std::uint32_t rows;
  std::uint32_t table_sequences;  // table entries for sequences
  std::uint32_t block_queries;    // maximum rows x heads per group in a block
  std::uint32_t block_splits;     // splits per piece, which has one sum: 1, kChunkSplits or
                                  // kSectionSplits
  std::uint32_t blocks;           // per key-value head
  std::uint32_t sums;             // in scratch
  std::uint32_t tiles;            // 1: use matrix instructions
};

struct AttentionArgs {
  ConstRows q;
  Cache keys;  // its pages come from the table
  Cache values;
  const std::uint32_t* table;
  AttentionPlan plan;
  Heads heads;
  Rows y;
  float* scratch;  // 16-byte aligned
  // At least attention_scratch_floats(...); with fewer, nothing is launched and the status is
  // cudaErrorInvalidValue.
  std::size_t scratch_floats;
  float scale;
  const float* sinks;  // [query heads], or null
};
// A weighted sum, padded to multiples of four floats, its largest score and its sum of weights.
__host__ __device__ constexpr std::size_t attention_sum_floats(std::uint32_t head_dim) {
  return (head_dim + 3) / 4 * 4 + 4;
}
constexpr std::size_t attention_scratch_floats(const AttentionPlan& plan, const Heads& heads) {
  return plan.sums * attention_sum_floats(heads.head_dim);
}
// Queries per block if there are enough.
inline constexpr std::uint32_t kBlockQueries = 64;
// Up to this many blocks, each split is a piece: eight blocks per multiprocessor of an H100.
inline constexpr std::uint32_t kFewBlocks = 1056;
// Maximum scratch for their sums: of heads of up to 256 elements, or of half as many wider ones.
inline constexpr std::size_t kAttentionSplitFloatsMax =
    std::size_t{kFewBlocks} * kBlockQueries * attention_sum_floats(256);

// Maximum rows per call.
inline constexpr std::uint32_t kAttentionRowsMax = 16384;
// One sequence's rows, input of a plan, in host memory.
struct AttentionPart {
  std::uint32_t rows;  // at least 1
  std::uint32_t prefix;
  std::uint32_t tail_slots;
  const std::uint64_t* masks;  // [rows, kMaskWords]; null: the prefix only
  const std::uint32_t* pages;  // null: contiguous
  std::uint32_t page_count;    // pages that prefix and tail cover
  // [rows]: first rank in each row's window, below its visible slots; null: no windows.
  const std::uint32_t* begins = nullptr;
};
// Scratch per row in a call whose pieces are chunks, if no row's window begins before rank `begin`.
// A call whose pieces are splits takes at most kAttentionSplitFloatsMax.
constexpr std::size_t attention_row_floats(std::uint32_t prefix, std::uint32_t tail_slots,
                                           const Heads& heads, std::uint32_t begin = 0) {
  constexpr std::uint32_t kChunkSlots = kSplitSlots * kChunkSplits;
  const std::size_t chunks =
      (std::size_t{prefix} + tail_slots + kChunkSlots - 1) / kChunkSlots - begin / kChunkSlots;
  return chunks * heads.kv_heads * heads.group * attention_sum_floats(heads.head_dim);
}
// Rows per call that keep scratch within `floats`, at least one; a multiple of a block's rows if
// possible.
constexpr std::uint32_t attention_rows_max(std::uint32_t prefix, std::uint32_t tail_slots,
                                           const Heads& heads, std::size_t floats,
                                           std::uint32_t begin = 0) {
  const std::size_t row_floats = attention_row_floats(prefix, tail_slots, heads, begin);
  const std::size_t rows = row_floats == 0 ? floats : floats / row_floats;
  const std::size_t block_rows = heads.group < kBlockQueries ? kBlockQueries / heads.group : 1;
  const std::size_t whole = rows >= block_rows ? rows - rows % block_rows : rows;
  return static_cast<std::uint32_t>(whole < 1                   ? 1
                                    : whole > kAttentionRowsMax ? kAttentionRowsMax
                                                                : whole);
}
// Table words for these parts.
std::size_t attention_table_words(const AttentionPart* parts, std::size_t count);
struct AttentionLimits {
  std::size_t block_bytes;  // bytes of shared memory
  // True if there are kernels with matrix instructions; their results differ in bits from the
  // others'.
  bool tiles;
  // Scratch capacity; rounding never exceeds it if the call itself fits.
  std::size_t scratch_floats;
};
// Widest heads of a call.
std::uint32_t attention_head_dim_max(const AttentionLimits& limits);
// Plans a call and writes its table of attention_table_words(...) words. Slots before all windows
// have no blocks. Returns
// cudaErrorInvalidValue if it exceeds the limits of one call.
[[nodiscard]] cudaError_t plan_attention(const AttentionPart* parts, std::size_t count,
                                         const Heads& heads, const AttentionLimits& limits,
                                         AttentionPlan& plan, std::uint32_t* table);
// True if `plan` and `table` (as many words as these parts need) are what plan_attention returned
// for some heads and limits. Much faster than planning; layers of a pass differ in neither.
bool attention_is_planned(const AttentionPart* parts, std::size_t count, const AttentionPlan& plan,
                          const std::uint32_t* table);
// Limits of the current device and its code, except scratch_floats.
[[nodiscard]] cudaError_t attention_limits(AttentionLimits& limits);
[[nodiscard]] cudaError_t attention(const AttentionArgs& args, cudaStream_t stream);

inline constexpr std::uint32_t kGroupRowsMax = 1024;
struct GroupAttentionArgs {
  ConstRows q;
  ConstRows k;
  ConstRows v;
  std::uint32_t groups;
  std::uint32_t group_rows;  // at most kGroupRowsMax
  Heads heads;
  Rows y;
};
[[nodiscard]] cudaError_t group_attention(const GroupAttentionArgs& args, cudaStream_t stream);

}  // namespace edgedraft::cuda
