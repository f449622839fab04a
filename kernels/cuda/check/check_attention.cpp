#include <numeric>

#include "kernels/cuda/check/checks.h"

namespace edgedraft::cuda::check {
namespace {

std::vector<double> exact_attention(const float* q, const std::vector<float>& keys,
                                    const std::vector<float>& values,
                                    const std::vector<std::size_t>& seen, std::size_t stride,
                                    std::size_t column, std::uint32_t head_dim) {
  std::vector<double> weights;
  for (const std::size_t slot : seen) {
    double dot = 0.0;
    for (std::uint32_t d = 0; d < head_dim; ++d) {
      dot += double{q[d]} * double{keys[slot * stride + column + d]};
    }
    weights.push_back(dot / std::sqrt(static_cast<double>(head_dim)));
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  double total = 0.0;
  for (double& w : weights) total += w = std::exp(w - largest);
  std::vector<double> y(head_dim);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    for (std::uint32_t d = 0; d < head_dim; ++d) {
      y[d] += weights[i] / total * double{values[seen[i] * stride + column + d]};
    }
  }
  return y;
}

// Multiples of 1/64 up to 1 in a cache's type: exact.
std::vector<std::byte> stored(DType type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * (type == DType::f32 ? 4 : 2));
  if (type == DType::f32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    int exponent = 0;
    const float fraction = std::frexp(std::fabs(values[i]), &exponent);  // in [1/2, 1)
    std::uint32_t bits = std::signbit(values[i]) ? 0x8000u : 0u;
    if (fraction != 0.0f) {
      const bool half = type == DType::f16;
      const auto point = static_cast<std::uint32_t>((2.0f * fraction - 1.0f) * (half ? 1024 : 128));
      bits |= half ? static_cast<std::uint32_t>(exponent + 14) << 10 | point
                   : static_cast<std::uint32_t>(exponent + 126) << 7 | point;
    }
    const auto word = static_cast<std::uint16_t>(bits);
    std::memcpy(&bytes[2 * i], &word, sizeof word);
  }
  return bytes;
}

// One sequence's rows after a prefix, in contiguous caches of values that their types hold exactly.
std::vector<float> attended(const Heads& heads, DType type, const std::vector<float>& keys,
                            const std::vector<float>& values, const std::vector<float>& q,
                            const AttentionPart& part, bool tiles = true) {
  const std::size_t kv_cols = std::size_t{heads.kv_heads} * heads.head_dim;
  const std::size_t query_cols = kv_cols * heads.group;
  const Array<std::byte> keys_on_device(stored(type, keys));
  const Array<std::byte> values_on_device(stored(type, values));
  const Array<float> q_on_device(q);
  const Array<float> y(q.size());
  const Attention call({part}, heads, tiles);
  must(attention(
           call.args(rows_of(q_on_device, query_cols),
                     {keys_on_device.data(), type, kv_cols, nullptr, 0},
                     {values_on_device.data(), type, kv_cols, nullptr, 0}, out_rows(y, query_cols)),
           nullptr),
       "attention");
  return y.values();
}

// The last row's path, compacted after the prefix and run as one plain row.
template <class Place>
bool path_matches(DType type, const Heads& heads, const std::vector<float>& keys,
                  const std::vector<float>& values, const std::vector<float>& q,
                  const std::vector<std::uint64_t>& masks, std::uint32_t rows, const Place& place,
                  const std::vector<float>& together, std::uint32_t prefix) {
  const std::size_t kv_cols = std::size_t{heads.kv_heads} * heads.head_dim;
  const std::size_t query_cols = kv_cols * heads.group;
  std::vector<float> path_keys;
  std::vector<float> path_values;
  std::uint32_t count = 0;
  const auto add = [&](std::uint32_t slot) {
    const auto at = static_cast<std::ptrdiff_t>(place(slot) * kv_cols);
    const auto cols = static_cast<std::ptrdiff_t>(kv_cols);
    path_keys.insert(path_keys.end(), keys.begin() + at, keys.begin() + at + cols);
    path_values.insert(path_values.end(), values.begin() + at, values.begin() + at + cols);
    ++count;
  };
  for (std::uint32_t slot = 0; slot < prefix; ++slot) add(slot);
  for (std::uint32_t j = 0; j < rows; ++j) {
    if ((masks[(rows - 1) * kMaskWords] >> j & 1) != 0) add(prefix + j);
  }
  const std::size_t row_at = (rows - 1) * query_cols;
  const std::vector<float> row(q.begin() + static_cast<std::ptrdiff_t>(row_at), q.end());
  const auto y =
      attended(heads, type, path_keys, path_values, row, {1, count, 0, nullptr, nullptr, 0});
  return same_bits(y.data(), &together[row_at], query_cols);
}

}  // namespace

void check_attention(Report& report, DType type, bool paged, std::uint32_t prefix) {
  const Sizes& sizes = report.sizes();
  const bool real = sizes.kv_cols >= 1024;
  const Heads heads{real ? 8u : 2u, 4, real ? 128u : 32u};
  const std::uint32_t kv_cols = heads.kv_heads * heads.head_dim;
  const std::uint32_t query_cols = kv_cols * heads.group;
  const std::uint32_t rows = 62;
  const std::uint32_t page_slots = 64;
  const std::uint32_t slots = (prefix + rows + page_slots - 1) / page_slots * page_slots;
  std::vector<std::uint32_t> pages(slots / page_slots);
  std::iota(pages.begin(), pages.end(), 0u);
  if (paged) std::reverse(pages.begin(), pages.end());
  const auto place = [&](std::uint32_t slot) {
    return std::size_t{pages[slot / page_slots]} * page_slots + slot % page_slots;
  };
  // Values that every type holds exactly.
  auto coarse = [](std::uint64_t seed, std::size_t count) {
    auto values = numbers(seed, count);
    for (float& v : values) v = std::round(v * 64.0f) / 64.0f;
    return values;
  };
  const auto keys = coarse(1, std::size_t{slots} * kv_cols);
  const auto values = coarse(2, std::size_t{slots} * kv_cols);
  const auto q = numbers(3, std::size_t{rows} * query_cols);
  std::vector<std::uint64_t> masks(rows * kMaskWords);
  Random random(4);
  for (std::uint32_t r = 0; r < rows; ++r) {
    const std::uint32_t parent = r == 0 ? 0 : random.below(3) == 0 ? random.below(r) : r - 1;
    if (r > 0) masks[r * kMaskWords] = masks[parent * kMaskWords];
    masks[r * kMaskWords] |= std::uint64_t{1} << r;
  }
  const Array<std::byte> keys_on_device(stored(type, keys));
  const Array<std::byte> values_on_device(stored(type, values));
  const Array<float> q_on_device(q);
  const Array<float> y(q.size());
  const auto cache_of = [&](const Array<std::byte>& memory) {
    return Cache{memory.data(), type, kv_cols, nullptr, paged ? page_slots : 0};
  };
  // Rows of one sequence, with optional masks.
  const auto part = [&](std::uint32_t count, std::uint32_t before, std::uint32_t tail) {
    return AttentionPart{count,
                         before,
                         tail,
                         masks.data(),
                         paged ? pages.data() : nullptr,
                         paged ? static_cast<std::uint32_t>(pages.size()) : 0};
  };
  const Attention alone({part(rows, prefix, rows)}, heads);
  must(attention(alone.args(rows_of(q_on_device, query_cols), cache_of(keys_on_device),
                            cache_of(values_on_device), out_rows(y, query_cols)),
                 nullptr),
       "attention");
  const auto together = y.values();
  // Places the row between other sequences: five tree rows before it, one row after it.
  const std::uint32_t before = 5;
  auto more_q = numbers(5, before * std::size_t{query_cols});
  more_q.insert(more_q.end(), q.begin(), q.end());
  more_q.insert(more_q.end(), q.begin(), q.begin() + query_cols);
  const Array<float> more_q_on_device(more_q);
  const Array<float> more_y(more_q.size());
  const Attention among(
      {part(before, prefix / 2, before), part(rows, prefix, rows), part(1, prefix + 3, 0)}, heads);
  must(attention(among.args(rows_of(more_q_on_device, query_cols), cache_of(keys_on_device),
                            cache_of(values_on_device), out_rows(more_y, query_cols)),
                 nullptr),
       "attention");
  double error = 0.0;
  for (int sample = 0; sample < 40; ++sample) {
    const std::uint32_t r = sample == 0 ? rows - 1 : random.below(rows);
    const std::uint32_t head = random.below(heads.kv_heads * heads.group);
    std::vector<std::size_t> seen;
    for (std::uint32_t slot = 0; slot < prefix; ++slot) seen.push_back(place(slot));
    for (std::uint32_t j = 0; j < rows; ++j) {
      if ((masks[r * kMaskWords] >> j & 1) != 0) seen.push_back(place(prefix + j));
    }
    const std::size_t at = std::size_t{r} * query_cols + head * heads.head_dim;
    const auto exact = exact_attention(&q[at], keys, values, seen, kv_cols,
                                       head / heads.group * heads.head_dim, heads.head_dim);
    for (std::uint32_t d = 0; d < heads.head_dim; ++d) {
      error = larger(error, std::fabs(double{together[at + d]} - exact[d]));
    }
  }
  const std::string what = std::string(traits(type).name) + (paged ? ", pages" : ", contiguous") +
                           ", 62 rows of a tree after " + std::to_string(prefix);
  report.row("attention", what, error, 4e-6);
  report.claim("attention", what + ": bit-identical beside other sequences",
               same_bits(more_y.values().data() + std::size_t{before} * query_cols, together.data(),
                         together.size()));
  report.claim("attention", what + ": bit-identical to plain decoding",
               path_matches(type, heads, keys, values, q, masks, rows, place, together, prefix));
}

// Chain rows at widths that start and end anywhere in a tile, in groups that fill tiles or not.
// Also checks that values with fewer bits give the same results as in float32.
void check_attention_tiles(Report& report) {
  const bool small = report.sizes().kv_cols < 1024;
  constexpr std::uint32_t kRows = 70;
  const std::uint32_t prefix = small ? 40 : 1000;
  std::vector<std::uint64_t> masks(kRows * kMaskWords);
  for (std::uint32_t r = 0; r < kRows; ++r) {
    for (std::uint32_t j = 0; j <= r; ++j) {
      masks[r * kMaskWords + j / 64] |= std::uint64_t{1} << j % 64;
    }
  }
  std::uint64_t seed = 1;
  for (const std::uint32_t group : {1u, 2u, 4u, 7u, 8u}) {
    for (const std::uint32_t head_dim : {64u, 96u, 100u, 128u, 256u}) {
      const Heads heads{small ? 1u : 4u, group, head_dim};
      const std::size_t kv_cols = std::size_t{heads.kv_heads} * head_dim;
      const std::size_t query_cols = kv_cols * group;
      const DType type = seed % 2 == 0 ? DType::bf16 : DType::f16;
      const float levels = type == DType::bf16 ? 64.0f : 1024.0f;
      const auto coarse = [&] {
        auto values = numbers(++seed, (prefix + kRows) * kv_cols);
        for (float& v : values) v = std::round(v * levels) / levels;
        return values;
      };
      const auto keys = coarse();
      const auto values = coarse();
      const auto q = numbers(++seed, kRows * query_cols);
      const auto all =
          attended(heads, type, keys, values, q, {kRows, prefix, kRows, masks.data(), nullptr, 0});
      const std::string what = std::string(traits(type).name) + ", groups of " +
                               std::to_string(group) + ", heads of " + std::to_string(head_dim);
      double error = 0.0;
      double error_without = 0.0;
      const auto without = attended(heads, type, keys, values, q,
                                    {kRows, prefix, kRows, masks.data(), nullptr, 0}, false);
      for (const std::uint32_t r : {0u, 15u, 16u, kRows - 1}) {
        std::vector<std::size_t> seen(prefix + r + 1);
        std::iota(seen.begin(), seen.end(), std::size_t{0});
        const std::size_t at = r * query_cols + (query_cols - head_dim);
        const auto exact =
            exact_attention(&q[at], keys, values, seen, kv_cols, kv_cols - head_dim, head_dim);
        for (std::uint32_t d = 0; d < head_dim; ++d) {
          error = larger(error, std::fabs(double{all[at + d]} - exact[d]));
          error_without = larger(error_without, std::fabs(double{without[at + d]} - exact[d]));
        }
      }
      report.row("attention", what, error, 4e-6);
      report.row("attention", what + ", without tensor cores", error_without, 4e-6);
      bool same = true;
      for (const std::uint32_t width : {1u, 3u, 4u, 5u, 15u, 16u, 17u, 33u, 64u, 69u}) {
        if (small && width % 16 != 1) continue;
        const std::size_t first = (kRows - width) * query_cols;
        const std::vector<float> last(q.begin() + static_cast<std::ptrdiff_t>(first), q.end());
        const auto y = attended(heads, type, keys, values, last,
                                {width, prefix + kRows - width, width, masks.data(), nullptr, 0});
        same = same && same_bits(y.data(), &all[first], y.size());
      }
      report.claim("attention", what + ": a row is bit-identical at every width", same);
      const auto wide = attended(heads, DType::f32, keys, values, q,
                                 {kRows, prefix, kRows, masks.data(), nullptr, 0});
      report.claim("attention", what + ": bit-identical to a float32 cache",
                   same_bits(wide.data(), all.data(), all.size()));
    }
  }
}

void check_group_attention(Report& report) {
  const Sizes& sizes = report.sizes();
  const Heads heads{2, 2, sizes.kv_cols >= 1024 ? 128u : 32u};
  const std::uint32_t cols = heads.kv_heads * heads.head_dim;
  const std::uint32_t group_rows = 32;
  const std::uint32_t groups = 5;
  const std::uint32_t rows = groups * group_rows;
  const auto q = numbers(1, std::size_t{rows} * cols * heads.group);
  const auto k = numbers(2, std::size_t{rows} * cols);
  const auto v = numbers(3, k.size());
  const Array<float> q_on_device(q);
  const Array<float> k_on_device(k);
  const Array<float> v_on_device(v);
  const Array<float> y(q.size());
  must(group_attention(
           {rows_of(q_on_device, cols * heads.group), rows_of(k_on_device, cols),
            rows_of(v_on_device, cols), groups, group_rows, heads, out_rows(y, cols * heads.group)},
           nullptr),
       "group_attention");
  const auto result = y.values();
  double error = 0.0;
  for (std::uint32_t r = 0; r < rows; ++r) {
    std::vector<std::size_t> seen(group_rows);
    std::iota(seen.begin(), seen.end(), std::size_t{r / group_rows * group_rows});
    for (std::uint32_t head = 0; head < heads.kv_heads * heads.group; ++head) {
      const std::size_t at = std::size_t{r} * cols * heads.group + head * heads.head_dim;
      const auto exact = exact_attention(&q[at], k, v, seen, cols,
                                         head / heads.group * heads.head_dim, heads.head_dim);
      for (std::uint32_t d = 0; d < heads.head_dim; ++d) {
        error = larger(error, std::fabs(double{result[at + d]} - exact[d]));
      }
    }
  }
  report.row("group_attention", "5 positions of 32 layers", error, 2e-6);
}

}  // namespace edgedraft::cuda::check
