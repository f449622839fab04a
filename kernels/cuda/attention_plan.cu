#include <algorithm>
#include <bitset>
#include <cstring>

#include "kernels/cuda/attention_stages.cuh"

// Plans an attention call's launch and the table its kernels read. Host code.
namespace edgedraft::cuda {

using namespace attention_detail;

namespace {

// Relative cost of a split per block, by query capacity. Blocks of 8 are best for up to 16 queries
// of a sequence, of 32 for up to 32, of 64 for more.
struct BlockCost {
  std::uint32_t queries;
  std::uint32_t cost;
};
constexpr BlockCost kBlockCosts[] = {{8, 4}, {32, 10}, {64, 15}};
// With matrix instructions: one read of keys and values, and one tile per 16 queries.
constexpr BlockCost kTileBlockCosts[] = {{16, 2}, {32, 3}, {64, 5}};
// Pieces are sections if that gives at least this many warps: about eight per multiprocessor of an
// H100.
constexpr std::uint64_t kManyWarps = 1024;

// Rounds up by eighths, and by at least 16 (512 slots if a block has one split), so that launches
// repeat while texts grow. Unused blocks end at once.
std::uint64_t rounded_up(std::uint64_t count) {
  std::uint64_t step = 16;
  while (step * 16 <= count) step *= 2;
  return (count + step - 1) / step * step;
}

std::uint32_t places_for(std::size_t sequences) {
  std::uint32_t places = 1;
  while (places < sequences) places *= 2;
  return places;
}

bool has_masks(const AttentionPart& part) {
  return part.tail_slots > 0;
}
std::uint32_t pieces_of(const AttentionPart& part, std::uint32_t slots) {
  return ceil_div(part.prefix + part.tail_slots, slots);
}
// First rank in any row's window.
std::uint32_t begin_of(const AttentionPart& part) {
  return part.begins == nullptr ? 0 : *std::min_element(part.begins, part.begins + part.rows);
}
std::uint32_t last_begin_of(const AttentionPart& part) {
  return part.begins == nullptr ? 0 : *std::max_element(part.begins, part.begins + part.rows);
}
// Pieces that some row's window reaches.
std::uint32_t seen_pieces(const AttentionPart& part, std::uint32_t slots) {
  return pieces_of(part, slots) - begin_of(part) / slots;
}

std::size_t block_bytes(const Heads& heads, const AttentionPlan& plan) {
  if (plan.tiles != 0) {
    return tile_block_bytes(tile_dims(heads.head_dim), plan.block_queries,
                            plan.block_splits == kSectionSplits);
  }
  const bool chunks = plan.block_splits > 1;
  if (heads.head_dim > 128) {
    return chunks ? sizeof(Form<8, 256, true>::Shared) : sizeof(Form<8, 256, false>::Shared);
  }
  switch (plan.block_queries) {
    case 8:
      return chunks ? sizeof(Form<8, 128, true>::Shared) : sizeof(Form<8, 128, false>::Shared);
    case 32:
      return chunks ? sizeof(Form<32, 128, true>::Shared) : sizeof(Form<32, 128, false>::Shared);
    default:
      return chunks ? sizeof(Form<64, 128, true>::Shared) : sizeof(Form<64, 128, false>::Shared);
  }
}

// The more queries of a key-value head, the more share a block and its reads of keys and values.
// Older processors lack the memory for that, and kernels without matrix instructions do not support
// it for large heads.
std::uint32_t best_block_queries(const AttentionPart* parts, std::size_t count, const Heads& heads,
                                 AttentionPlan plan, std::size_t block_bytes_max) {
  const auto& costs = plan.tiles != 0 ? kTileBlockCosts : kBlockCosts;
  std::uint32_t best = costs[0].queries;
  std::uint64_t least = ~std::uint64_t{0};
  for (const BlockCost& block : costs) {
    plan.block_queries = block.queries;
    if (block.queries > costs[0].queries &&
        ((plan.tiles == 0 && heads.head_dim > 128) || block_bytes(heads, plan) > block_bytes_max)) {
      break;
    }
    std::uint64_t cost = 0;
    for (std::size_t i = 0; i < count; ++i) {
      cost += std::uint64_t{ceil_div(parts[i].rows * heads.group, block.queries)} *
              seen_pieces(parts[i], kSplitSlots) * block.cost;
    }
    if (cost <= least) {
      best = block.queries;
      least = cost;
    }
  }
  return best;
}

// Blocks per key-value head of a part; without matrix instructions, one piece per block.
std::uint64_t blocks_of(const AttentionPart& part, const Heads& heads, const AttentionPlan& plan) {
  if (plan.tiles != 0) {
    return TileWork(part.rows, part.prefix, part.tail_slots, begin_of(part), heads, plan).blocks();
  }
  return std::uint64_t{seen_pieces(part, plan.block_splits * kSplitSlots)} *
         ceil_div(part.rows * heads.group, plan.block_queries);
}

// True if sections keep the device busy, and a block has memory for their sums.
bool takes_sections(const AttentionPart* parts, std::size_t count, const Heads& heads,
                    AttentionPlan plan, std::size_t block_bytes_max) {
  plan.block_splits = kSectionSplits;
  plan.block_queries = kTileQueries;
  std::uint64_t warps = 0;
  for (std::size_t i = 0; i < count; ++i) {
    warps += std::uint64_t{seen_pieces(parts[i], kSectionSplits * kSplitSlots)} *
             ceil_div(parts[i].rows * heads.group, kTileQueries);
  }
  return warps * heads.kv_heads >= kManyWarps && block_bytes(heads, plan) <= block_bytes_max;
}

void write_table(const AttentionPart* parts, std::size_t count, const Heads& heads,
                 const AttentionPlan& plan, std::uint32_t* table) {
  const std::uint32_t piece_slots = plan.block_splits * kSplitSlots;
  const std::uint32_t row_heads = heads.kv_heads * heads.group;
  std::uint32_t rows_at = plan.table_sequences * kSequenceWords;
  std::uint32_t masks_at = rows_at + plan.rows * kRowWords;
  std::uint32_t pages_at = masks_at;
  for (std::size_t i = 0; i < count; ++i) {
    if (has_masks(parts[i])) pages_at += parts[i].rows * kMaskWords * 2;
  }
  AttentionSequence next{};
  for (std::uint32_t i = 0; i < plan.table_sequences; ++i) {
    AttentionSequence sequence = next;
    if (i < count) {
      const AttentionPart& part = parts[i];
      const std::uint32_t pieces = seen_pieces(part, piece_slots);
      sequence.rows = part.rows;
      sequence.prefix = part.prefix;
      sequence.tail_slots = part.tail_slots;
      sequence.masks_at = masks_at;
      sequence.pages_at = pages_at;
      sequence.begin = begin_of(part);
      sequence.last_begin = last_begin_of(part);
      const std::uint32_t first_piece = sequence.begin / piece_slots;
      for (std::uint32_t r = 0; r < part.rows; ++r) {
        AttentionRow row{part.prefix, static_cast<std::int32_t>(next.first_sum - first_piece),
                         pieces, part.begins != nullptr ? part.begins[r] : 0};
        if (has_masks(part)) {
          for (std::uint32_t word = 0; word < kMaskWords; ++word) {
            row.visible += static_cast<std::uint32_t>(
                std::bitset<64>(part.masks[r * kMaskWords + word]).count());
          }
        }
        std::memcpy(table + rows_at, &row, sizeof row);
        rows_at += kRowWords;
        next.first_sum += row_heads * pieces;
      }
      if (has_masks(part)) {
        std::memcpy(table + masks_at, part.masks, part.rows * kMaskWords * 8);
        masks_at += part.rows * kMaskWords * 2;
      }
      if (part.page_count > 0) std::memcpy(table + pages_at, part.pages, part.page_count * 4);
      pages_at += part.page_count;
      next.first_block += static_cast<std::uint32_t>(blocks_of(part, heads, plan));
      next.first_row += part.rows;
    }
    std::memcpy(table + i * kSequenceWords, &sequence, sizeof sequence);
  }
}

}  // namespace

std::uint32_t attention_head_dim_max(const AttentionLimits& limits) {
  const bool fits = tile_block_bytes(kHeadDimMax, kTileQueries, false) <= limits.block_bytes;
  return limits.tiles && fits ? kHeadDimMax : kPlainHeadDimMax;
}

std::size_t attention_table_words(const AttentionPart* parts, std::size_t count) {
  std::size_t words = std::size_t{places_for(count)} * kSequenceWords;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row_words = kRowWords + (has_masks(parts[i]) ? kMaskWords * 2 : 0);
    words += parts[i].rows * row_words + parts[i].page_count;
  }
  return words;
}

bool attention_is_planned(const AttentionPart* parts, std::size_t count, const AttentionPlan& plan,
                          const std::uint32_t* table) {
  const auto sequence_of = [&](std::size_t i) {
    AttentionSequence sequence;
    std::memcpy(&sequence, table + i * kSequenceWords, sizeof sequence);
    return sequence;
  };
  if (plan.table_sequences != places_for(count)) return false;
  if (count < plan.table_sequences && sequence_of(count).rows != 0) return false;
  std::size_t rows_at = plan.table_sequences * kSequenceWords;
  std::size_t masks_at = rows_at + plan.rows * kRowWords;
  std::size_t pages_at = masks_at;
  std::uint64_t rows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (has_masks(parts[i])) pages_at += parts[i].rows * kMaskWords * 2;
    rows += parts[i].rows;
  }
  if (rows != plan.rows) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const AttentionPart& part = parts[i];
    const AttentionSequence sequence = sequence_of(i);
    if (sequence.rows != part.rows || sequence.prefix != part.prefix ||
        sequence.tail_slots != part.tail_slots || sequence.masks_at != masks_at ||
        sequence.pages_at != pages_at) {
      return false;
    }
    for (std::uint32_t r = 0; r < part.rows; ++r, rows_at += kRowWords) {
      AttentionRow row;
      std::memcpy(&row, table + rows_at, sizeof row);
      if (row.begin != (part.begins != nullptr ? part.begins[r] : 0)) return false;
    }
    if (has_masks(part)) {
      const std::size_t words = part.rows * kMaskWords * 2;
      if (std::memcmp(table + masks_at, part.masks, words * 4) != 0) return false;
      masks_at += words;
    }
    if (part.page_count > 0 &&
        std::memcmp(table + pages_at, part.pages, part.page_count * 4) != 0) {
      return false;
    }
    pages_at += part.page_count;
  }
  return true;
}

cudaError_t plan_attention(const AttentionPart* parts, std::size_t count, const Heads& heads,
                           const AttentionLimits& limits, AttentionPlan& plan,
                           std::uint32_t* table) {
  if (heads.head_dim > attention_head_dim_max(limits)) return cudaErrorInvalidValue;
  std::uint64_t few = 0;  // blocks whose pieces are splits, counted at full size
  std::uint64_t rows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (parts[i].tail_slots > kTailMax) return cudaErrorInvalidValue;
    few += std::uint64_t{seen_pieces(parts[i], kSplitSlots)} *
           ceil_div(parts[i].rows * heads.group, kBlockQueries);
    rows += parts[i].rows;
  }
  // Wider heads have fewer blocks, for the same scratch.
  const std::uint64_t few_max = heads.head_dim <= 256 ? kFewBlocks : kFewBlocks / 2;
  const bool chunks = rounded_up(few) * heads.kv_heads > few_max;
  plan = {};
  plan.rows = static_cast<std::uint32_t>(rows);
  plan.table_sequences = places_for(count);
  plan.tiles = limits.tiles ? 1 : 0;
  plan.block_splits = chunks ? kChunkSplits : 1;
  if (chunks && limits.tiles && takes_sections(parts, count, heads, plan, limits.block_bytes)) {
    plan.block_splits = kSectionSplits;
  }
  plan.block_queries = best_block_queries(parts, count, heads, plan, limits.block_bytes);
  std::uint64_t blocks = 0;
  std::uint64_t sums = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t pieces = seen_pieces(parts[i], plan.block_splits * kSplitSlots);
    blocks += blocks_of(parts[i], heads, plan);
    sums += pieces * parts[i].rows * heads.kv_heads * heads.group;
  }
  const std::uint64_t sums_max = chunks
                                     ? limits.scratch_floats / attention_sum_floats(heads.head_dim)
                                     : few_max * kBlockQueries;
  sums = std::max(sums, std::min(rounded_up(sums), sums_max));
  blocks = rounded_up(blocks);
  constexpr std::uint64_t kMax = 0x7FFFFFFF;
  if (blocks > kMax || sums > kMax || rows > kAttentionRowsMax) return cudaErrorInvalidValue;
  plan.blocks = static_cast<std::uint32_t>(blocks);
  plan.sums = static_cast<std::uint32_t>(sums);
  write_table(parts, count, heads, plan, table);
  return cudaSuccess;
}

}  // namespace edgedraft::cuda
