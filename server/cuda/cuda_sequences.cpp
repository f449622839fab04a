#include "server/cuda/cuda_sequences.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "server/cuda/cuda_error.h"
#include "server/cuda/cuda_views.h"

namespace edgedraft::server {
namespace {

static_assert(sizeof(AncestorMask) == cuda::kMaskWords * sizeof(std::uint64_t));

// Slots after the prefix that the masks reach.
std::uint32_t reach_of(std::span<const AncestorMask> masks) {
  AncestorMask all;
  for (const AncestorMask& mask : masks) {
    for (std::size_t word = 0; word < mask.bits.size(); ++word) all.bits[word] |= mask.bits[word];
  }
  for (std::size_t word = all.bits.size(); word-- > 0;) {
    if (all.bits[word] != 0) {
      return static_cast<std::uint32_t>(word * 64 +
                                        static_cast<std::size_t>(std::bit_width(all.bits[word])));
    }
  }
  return 0;
}

// True if the rows of `b` follow `a`'s in one matrix.
bool follows(const Matrix& a, const Matrix& b) {
  return a.buffer == b.buffer && a.cols == b.cols && a.stride == b.stride &&
         a.offset + a.rows * a.stride == b.offset;
}

bool same_weight(const Weight& a, const Weight& b) {
  return a.buffer == b.buffer && a.offset_bytes == b.offset_bytes;
}

bool same_memory(const CacheRows& a, const CacheRows& b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.stride == b.stride && a.type == b.type;
}

// Maximum rows stored per launch.
constexpr std::size_t kPlacesMax = CudaArguments::kArrayBytesMax / sizeof(std::uint32_t);

void add_places(std::vector<std::uint32_t>& places, const CacheView& cache, std::uint32_t first,
                std::uint32_t rows) {
  for (std::uint32_t row = 0; row < rows; ++row) {
    places.push_back(static_cast<std::uint32_t>(cache.row(first + row)));
  }
}

cuda::StorePart store_part(const Matrix& x, const CacheRows& memory) {
  return {.x = device_const_rows(x), .data = device_data(memory), .stride = memory.stride};
}

// Table words per sequence, besides its rows. Sequence entries are rounded up to a power of two, so
// up to half are unused.
std::size_t words_of(const cuda::AttentionPart& part) {
  return std::size_t{2} * cuda::kSequenceWords + part.page_count;
}

cuda::Cache cache_of(const CacheRows& memory, std::uint32_t page_slots) {
  return {.data = device_data(memory),
          .type = memory.type,
          .stride = memory.stride,
          .pages = nullptr,
          .page_slots = page_slots};
}

}  // namespace

CudaSequences::CudaSequences(CudaQueue& queue, CudaArguments& arguments,
                             std::uint64_t scratch_bytes)
    : queue_(queue), arguments_(arguments) {
  queue_.choose_device();
  try_cuda(cuda::attention_limits(limits_), "querying the limits of attention");
  limits_.scratch_floats = static_cast<std::size_t>(scratch_bytes / sizeof(float));
}

template <class Args>
void CudaSequences::enqueue(cudaError_t (*launcher)(const Args&, cudaStream_t), const Args& args) {
  queue_.enqueue(launcher, args);
  arguments_.make_room();
}

void CudaSequences::rotate_and_store(const RopeStoreOp& op) {
  std::uint32_t first = 0;
  for (auto s = op.sequences.begin(); s != op.sequences.end();) {
    const RopeStoreOp::Sequence& head = *s;
    places_.clear();
    do {
      add_places(places_, s->keys, s->first, s->rows);
      ++s;
    } while (s != op.sequences.end() && same_memory(head.keys.memory, s->keys.memory) &&
             same_memory(head.values.memory, s->values.memory) &&
             places_.size() + s->rows <= kPlacesMax);
    const auto rows = static_cast<std::uint32_t>(places_.size());
    const Matrix q = op.q.row_range(first, rows);
    enqueue(cuda::rope_store,
            cuda::RopeStoreArgs{
                .q = device_rows(q),
                .query_cols = q.cols,
                .keys = store_part(op.k.row_range(first, rows), head.keys.memory),
                .values = store_part(op.v.row_range(first, rows), head.values.memory),
                .kv_cols = op.k.cols,
                .type = head.keys.memory.type,
                .positions = arguments_.on_device(op.positions.subspan(first, rows)),
                .places = arguments_.on_device(std::span<const std::uint32_t>(places_)),
                .cos_sin = op.rotated != 0 ? device_const_rows(op.cos_sin) : cuda::ConstRows{},
                .rows = rows,
                .head_dim = op.head_dim,
                .rotated = op.rotated,
                .pairs = op.style == RopeStyle::pairs});
    first += rows;
  }
}

void CudaSequences::store(std::span<const StoreOp> ops) {
  while (!ops.empty()) {
    const StoreOp& head = ops[0];
    places_.clear();
    std::size_t count = 0;
    do {
      add_places(places_, ops[count].cache, ops[count].first, ops[count].x.rows);
      ++count;
    } while (count < ops.size() && follows(ops[count - 1].x, ops[count].x) &&
             same_memory(head.cache.memory, ops[count].cache.memory) &&
             places_.size() + ops[count].x.rows <= kPlacesMax);
    ops = ops.subspan(count);
    enqueue(cuda::store,
            cuda::StoreArgs{.part = store_part(head.x, head.cache.memory),
                            .type = head.cache.memory.type,
                            .places = arguments_.on_device(std::span<const std::uint32_t>(places_)),
                            .rows = static_cast<std::uint32_t>(places_.size()),
                            .cols = head.x.cols});
  }
}

void CudaSequences::attend(std::span<const AttentionOp> ops) {
  std::size_t row_count = 0;
  for (const AttentionOp& op : ops) row_count += op.q.rows;
  begins_.clear();
  begins_.reserve(row_count);  // parts point into it
  const AttentionOp* before = nullptr;
  for (const AttentionOp& op : ops) {
    if (op.q.rows == 0) continue;
    const bool together =
        before != nullptr && follows(before->q, op.q) && follows(before->y, op.y) &&
        same_memory(before->keys.memory, op.keys.memory) &&
        same_memory(before->values.memory, op.values.memory) &&
        before->keys.page_slots == op.keys.page_slots && before->heads == op.heads &&
        before->scale == op.scale && same_weight(before->sinks, op.sinks);
    if (!together) launch_attention();
    add(op);
    before = &op;
  }
  launch_attention();
}

// Processes as many rows at a time as scratch allows.
void CudaSequences::add(const AttentionOp& op) {
  const cuda::Heads heads = heads_of(op.heads);
  cuda::AttentionPart part{.rows = 1,
                           .prefix = op.prefix,
                           .tail_slots = reach_of(op.masks),
                           .masks = nullptr,
                           .pages = nullptr,
                           .page_count = 0};
  if (op.keys.paged()) {
    part.pages = op.keys.pages.data();
    part.page_count = (part.prefix + part.tail_slots - 1) / op.keys.page_slots + 1;
  }
  const std::size_t begins_at = begins_.size();
  std::uint32_t begin = 0;
  if (op.window != 0) {
    for (std::uint32_t r = 0; r < op.q.rows; ++r) begins_.push_back(op.window_begin(r));
    begin =
        *std::min_element(begins_.begin() + static_cast<std::ptrdiff_t>(begins_at), begins_.end());
  }
  const std::size_t row_floats =
      cuda::attention_row_floats(part.prefix, part.tail_slots, heads, begin);
  for (std::uint32_t first = 0; first < op.q.rows; first += part.rows) {
    part.rows = 1;
    if (!op.masks.empty()) part.masks = op.masks[first].bits.data();
    if (op.window != 0) part.begins = begins_.data() + begins_at + first;
    if (!has_room_for(part, row_floats)) launch_attention();
    if (parts_.empty()) {
      launch_ = {.q = op.q.row_range(first, op.q.rows - first),
                 .y = op.y.row_range(first, op.q.rows - first),
                 .keys = op.keys.memory,
                 .values = op.values.memory,
                 .page_slots = op.keys.page_slots,
                 .heads = op.heads,
                 .scale = op.scale,
                 .sinks = op.sinks};
      floats_left_ = limits_.scratch_floats;
    }
    part.rows = std::min(
        {op.q.rows - first, cuda::kAttentionRowsMax - rows_,
         cuda::attention_rows_max(part.prefix, part.tail_slots, heads, floats_left_, begin)});
    parts_.push_back(part);
    rows_ += part.rows;
    words_ += words_of(part);
    floats_left_ -= std::min(floats_left_, part.rows * row_floats);
  }
}

// True if a row of the part fits into the launch.
bool CudaSequences::has_room_for(const cuda::AttentionPart& part, std::size_t floats) const {
  // A quarter of an array holds sequences and their pages; rows and masks take no more than the
  // rest.
  constexpr std::size_t kWordsMax = CudaArguments::kArrayBytesMax / sizeof(std::uint32_t) / 4;
  static_assert(cuda::kAttentionRowsMax * (cuda::kRowWords + 2 * cuda::kMaskWords) <=
                3 * kWordsMax);
  return parts_.empty() || (floats <= floats_left_ && rows_ < cuda::kAttentionRowsMax &&
                            words_ + words_of(part) <= kWordsMax);
}

// A layer usually repeats the previous layer's plan.
cudaError_t CudaSequences::plan_launch(Planned& planned) {
  const std::size_t words = cuda::attention_table_words(parts_.data(), parts_.size());
  if (planned.heads == launch_.heads && planned.table.size() == words &&
      cuda::attention_is_planned(parts_.data(), parts_.size(), planned.plan,
                                 planned.table.data())) {
    return cudaSuccess;
  }
  planned.table.resize(words);
  const cudaError_t status =
      cuda::plan_attention(parts_.data(), parts_.size(), heads_of(launch_.heads), limits_,
                           planned.plan, planned.table.data());
  planned.heads = status == cudaSuccess ? std::optional(launch_.heads) : std::nullopt;
  return status;
}

void CudaSequences::launch_attention() {
  if (parts_.empty()) return;
  Planned& planned = begins_.empty() ? whole_ : windowed_;
  const cudaError_t status = plan_launch(planned);
  launch_.q.rows = launch_.y.rows = rows_;
  parts_.clear();
  rows_ = 0;
  words_ = 0;
  try_cuda(status, "planning attention");
  // Reserved before the arguments are uploaded: growing the scratch starts the recorded launches.
  const cuda::Heads heads = heads_of(launch_.heads);
  auto* scratch = scratch_.reserve<float>(cuda::attention_scratch_floats(planned.plan, heads));
  enqueue(cuda::attention,
          cuda::AttentionArgs{
              .q = device_const_rows(launch_.q),
              .keys = cache_of(launch_.keys, launch_.page_slots),
              .values = cache_of(launch_.values, launch_.page_slots),
              .table = arguments_.on_device(std::span<const std::uint32_t>(planned.table)),
              .plan = planned.plan,
              .heads = heads,
              .y = device_rows(launch_.y),
              .scratch = scratch,
              .scratch_floats = static_cast<std::size_t>(scratch_.bytes_count() / sizeof(float)),
              .scale = launch_.scale,
              .sinks = device_floats(launch_.sinks)});
}

}  // namespace edgedraft::server
