#include "kernels/cuda/check/checks.h"

namespace edgedraft::cuda::check {

void check_rope(Report& report) {
  const Sizes& sizes = report.sizes();
  const std::uint32_t head_dim = 128;
  const std::uint32_t positions_max = 64;
  const auto x = numbers(1, 64 * sizes.dim);
  std::vector<float> table(positions_max * head_dim);
  for (std::uint32_t p = 0; p < positions_max; ++p) {
    for (std::uint32_t i = 0; i < head_dim / 2; ++i) {
      const double angle = p * std::pow(500000.0, -2.0 * i / head_dim);
      table[p * head_dim + i] = static_cast<float>(std::cos(angle));
      table[p * head_dim + head_dim / 2 + i] = static_cast<float>(std::sin(angle));
    }
  }
  std::vector<std::uint32_t> positions(64);
  for (std::uint32_t r = 0; r < 64; ++r) positions[r] = 63 - r;
  const Array<float> table_on_device(table);
  const Array<std::uint32_t> positions_on_device(positions);
  for (const bool pairs : {false, true}) {
    // Queries and, half as wide, keys: the same numbers, so that one loop knows both.
    const std::uint32_t key_cols = sizes.dim / 2;
    const Array<float> x_on_device(x);
    const Array<float> keys_on_device(x);
    must(rope({{out_rows(x_on_device, sizes.dim), out_rows(keys_on_device, sizes.dim)},
               {sizes.dim, key_cols},
               positions_on_device.data(),
               rows_of(table_on_device, head_dim),
               64,
               head_dim,
               pairs},
              nullptr),
         "rope");
    const auto values = x_on_device.values();
    const auto keys = keys_on_device.values();
    double error = 0.0;
    bool keys_match = true;
    for (std::size_t r = 0; r < 64; ++r) {
      for (std::uint32_t i = 0; i < sizes.dim / 2; ++i) {
        const std::uint32_t f = i % (head_dim / 2);
        const std::size_t head = r * sizes.dim + i / (head_dim / 2) * head_dim;
        const std::size_t a = head + (pairs ? 2 * f : f);
        const std::size_t b = head + (pairs ? 2 * f + 1 : f + head_dim / 2);
        const double c{table[positions[r] * head_dim + f]};
        const double s{table[positions[r] * head_dim + head_dim / 2 + f]};
        const double first = double{x[a]} * c - double{x[b]} * s;
        const double second = double{x[b]} * c + double{x[a]} * s;
        error = larger(error, std::fabs(double{values[a]} - first));
        error = larger(error, std::fabs(double{values[b]} - second));
        const bool is_key = a - r * sizes.dim < key_cols;
        keys_match = keys_match && keys[a] == (is_key ? values[a] : x[a]) &&
                     keys[b] == (is_key ? values[b] : x[b]);
      }
    }
    report.row("rope", pairs ? "pairs" : "halves", error, 3e-7);
    report.claim("rope", "keys in the launch of the queries", keys_match);
  }
}

void check_cache_moves(Report& report, DType type) {
  const std::uint32_t cols = report.sizes().kv_cols;
  const std::size_t element = type == DType::f32 ? 4 : 2;
  const std::size_t row_bytes = cols * element;
  std::vector<std::byte> memory(128 * row_bytes);
  Random random(1);
  for (std::byte& b : memory) b = static_cast<std::byte>(random.below(256));
  const std::vector<std::uint32_t> slots = {40, 41, 45, 60, 99};
  const std::vector<std::uint32_t> pages = {7, 3, 1, 0, 2, 6, 5, 4};
  const Array<std::uint32_t> slots_on_device(slots);
  const Array<std::uint32_t> pages_on_device(pages);
  const Array<std::byte> cache(memory);
  const auto at = [&](std::uint32_t slot) {
    return (pages[slot / 16] * 16 + slot % 16) * row_bytes;
  };
  const Cache paged{cache.data(), type, cols, pages_on_device.data(), 16};
  must(compact({paged, cols, 40, slots_on_device.data(), 5}, nullptr), "compact");
  auto result = cache.values();
  bool good = true;
  for (std::uint32_t i = 0; i < slots.size(); ++i) {
    good = good && same_bits(&result[at(40 + i)], &memory[at(slots[i])], row_bytes);
  }
  report.claim("compact", std::string(traits(type).name) + ", 5 slots in pages", good);

  auto x = numbers(2, 8 * std::size_t{cols});
  x[1] = 70000.0f;
  x[2] = -1e9f;
  const Array<float> x_on_device(x);
  std::vector<std::uint32_t> places;
  for (std::uint32_t slot = 12; slot < 20; ++slot) {
    places.push_back(pages[slot / 16] * 16 + slot % 16);
  }
  const Array<std::uint32_t> places_on_device(places);
  const Array<std::byte> beside(memory);  // of values, in the launch of the keys
  const auto part = [&](const Array<std::byte>& to) {
    return StorePart{rows_of(x_on_device, cols), to.data(), cols};
  };
  must(store({{part(cache), part(beside)}, 2, type, places_on_device.data(), 8, cols}, nullptr),
       "store");
  result = cache.values();
  double error = 0.0;  // of a number's size
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::byte* from =
        &result[at(12 + static_cast<std::uint32_t>(i / cols))] + i % cols * element;
    float held = 0.0f;
    std::uint16_t word = 0;
    if (type == DType::f32) {
      std::memcpy(&held, from, sizeof held);
    } else {
      std::memcpy(&word, from, sizeof word);
      held = type == DType::f16 ? half_value(word) : bfloat16_value(word);
    }
    const double largest = type == DType::f16 ? 65504.0 : 1e30;
    const double expected = std::max(-largest, std::min(largest, double{x[i]}));
    // Below float16's normal numbers steps are even.
    const double size = std::max(std::fabs(expected), type == DType::f16 ? 0x1p-14 : 1e-30);
    error = larger(error, std::fabs(double{held} - expected) / size);
  }
  report.row("store", std::string(traits(type).name) + ", 8 rows across two pages", error,
             type == DType::f32   ? 0.0
             : type == DType::f16 ? 0x1p-11
                                  : 0x1p-8);

  must(compact({{beside.data(), type, cols, pages_on_device.data(), 16},
                cols,
                40,
                slots_on_device.data(),
                5},
               nullptr),
       "compact");
  report.claim("store", std::string(traits(type).name) + ", values in the launch of the keys",
               beside.values() == result);
}

void check_gather_and_mean(Report& report) {
  const Heads heads{2, 2, 32};
  const std::uint32_t layers = 32;
  const auto memory = numbers(1, layers * 2 * 10 * 64);
  const Array<float> on_device(memory);
  std::vector<Cache> caches(2 * layers);
  for (std::uint32_t i = 0; i < caches.size(); ++i) {
    caches[i] = {reinterpret_cast<std::byte*>(on_device.data() + i * 640), DType::f32, 64, nullptr,
                 0};
  }
  const std::vector<std::uint32_t> slots = {3, 9};
  const Array<Cache> caches_on_device(caches);
  const Array<std::uint32_t> slots_on_device(slots);
  const Array<float> y(2 * layers * 128);
  must(gather_layers({caches_on_device.data(), caches_on_device.data() + layers, layers,
                      slots_on_device.data(), 2, heads, true, out_rows(y, 128)},
                     nullptr),
       "gather_layers");
  const auto gathered = y.values();
  bool good = true;
  for (std::uint32_t p = 0; p < 2; ++p) {
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      for (std::uint32_t i = 0; i < 64; ++i) {
        const std::uint32_t head = i / 32;
        const std::uint32_t d = i % 32;
        const float* row = &gathered[(p * layers + layer) * 128 + 2 * head * 32];
        const float* keys = &memory[layer * 640 + slots[p] * 64 + head * 32];
        const float* values = &memory[(layers + layer) * 640 + slots[p] * 64 + head * 32];
        good = good && row[d] == keys[d % 16 * 2 + d / 16] && row[32 + d] == values[d];
      }
    }
  }
  report.claim("gather_layers", "32 layers, paired keys", good);
  const Array<float> mean(2 * 128);
  must(group_mean({rows_of(y, 128), 2, layers, 128, out_rows(mean, 128)}, nullptr), "group_mean");
  const auto means = mean.values();
  double error = 0.0;
  for (std::uint32_t i = 0; i < 256; ++i) {
    double sum = 0.0;
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      sum += double{gathered[(i / 128 * layers + layer) * 128 + i % 128]};
    }
    error = larger(error, std::fabs(double{means[i]} - sum / layers));
  }
  report.row("group_mean", "32 rows", error, 1e-6);
}

}  // namespace edgedraft::cuda::check
