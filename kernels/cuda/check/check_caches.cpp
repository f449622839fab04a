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
    const Array<float> x_on_device(x);
    must(rope({out_rows(x_on_device, sizes.dim), sizes.dim, positions_on_device.data(),
               rows_of(table_on_device, head_dim), 64, head_dim, head_dim, pairs},
              nullptr),
         "rope");
    const auto values = x_on_device.values();
    double error = 0.0;
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
      }
    }
    report.row("rope", pairs ? "pairs" : "halves", error, 3e-7);
  }
}

// Against rope and store, bit for bit.
void check_rope_store(Report& report, DType type) {
  const std::uint32_t head_dim = 64;
  const std::uint32_t rows = 33;
  const std::uint32_t cols = report.sizes().kv_cols;
  const std::uint32_t query_cols = report.sizes().dim;
  const std::size_t element = type == DType::f32 ? 4 : 2;
  auto keys = numbers(2, std::size_t{rows} * cols);
  keys[1] = 1e9f;
  const auto values = numbers(3, std::size_t{rows} * cols);
  const Array<float> values_on_device(values);
  const Array<float> table(numbers(4, std::size_t{64} * head_dim));
  std::vector<std::uint32_t> positions(rows);
  std::vector<std::uint32_t> places(rows);
  for (std::uint32_t r = 0; r < rows; ++r) {
    positions[r] = r * 5 % 64;
    places[r] = (r * 7 + 3) % 64;
  }
  const Array<std::uint32_t> positions_on_device(positions);
  const Array<std::uint32_t> places_on_device(places);
  for (const bool pairs : {false, true}) {
    const auto run = [&](bool together) {
      const Array<float> q(numbers(1, std::size_t{rows} * query_cols));
      const Array<float> k(keys);
      const Array<std::byte> key_cache(64 * cols * element);
      const Array<std::byte> value_cache(64 * cols * element);
      const StorePart of_keys{rows_of(k, cols), key_cache.data(), cols};
      const StorePart of_values{rows_of(values_on_device, cols), value_cache.data(), cols};
      if (together) {
        must(rope_store({out_rows(q, query_cols), query_cols, of_keys, of_values, cols, type,
                         positions_on_device.data(), places_on_device.data(),
                         rows_of(table, head_dim), rows, head_dim, head_dim, pairs},
                        nullptr),
             "rope_store");
      } else {
        for (const auto& [x, count] :
             {std::pair(out_rows(q, query_cols), query_cols), std::pair(out_rows(k, cols), cols)}) {
          must(rope({x, count, positions_on_device.data(), rows_of(table, head_dim), rows, head_dim,
                     head_dim, pairs},
                    nullptr),
               "rope");
        }
        for (const StorePart& part : {of_keys, of_values}) {
          must(store({part, type, places_on_device.data(), rows, cols}, nullptr), "store");
        }
      }
      auto bytes = key_cache.values();
      for (const std::byte b : value_cache.values()) bytes.push_back(b);
      const auto queries = q.values();
      const auto* first = reinterpret_cast<const std::byte*>(queries.data());
      bytes.insert(bytes.end(), first, first + queries.size() * sizeof(float));
      return bytes;
    };
    report.claim("rope_store",
                 std::string(traits(type).name) + (pairs ? ", pairs" : ", halves") +
                     ": bit-identical to rope and store",
                 run(true) == run(false));
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
  must(store({{rows_of(x_on_device, cols), cache.data(), cols},
              type,
              places_on_device.data(),
              8,
              cols},
             nullptr),
       "store");
  result = cache.values();
  double error = 0.0;  // relative to the element
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
    // Below float16's normal range, spacing is constant.
    const double size = std::max(std::fabs(expected), type == DType::f16 ? 0x1p-14 : 1e-30);
    error = larger(error, std::fabs(double{held} - expected) / size);
  }
  report.row("store", std::string(traits(type).name) + ", 8 rows across two pages", error,
             type == DType::f32   ? 0.0
             : type == DType::f16 ? 0x1p-11
                                  : 0x1p-8);
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
