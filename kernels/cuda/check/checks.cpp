#include <cstring>
#include <functional>
#include <numeric>

#include "kernels/cuda/check/support.h"

// Every operation at sizes of Llama 3 8B against float64 on the host. Where that would take
// minutes, some outputs are checked; which, changes with the case.
namespace edgedraft::cuda::check {
namespace {

struct Sizes {
  std::uint32_t dim;
  std::uint32_t kv_cols;
  std::uint32_t ffn;
  std::uint32_t vocabulary;
  std::uint32_t prefix;
  std::vector<std::uint32_t> widths;
};
Sizes real_sizes() {
  return {4096, 1024, 14336, 128256, 2000, {1, 2, 7, 8, 16, 33, 64, 128}};
}
Sizes small_sizes() {
  return {512, 64, 384, 3000, 200, {1, 9, 33}};
}

ConstRows rows_of(const Array<float>& a, std::size_t cols) {
  return {a.data(), cols};
}
Rows out_rows(const Array<float>& a, std::size_t cols) {
  return {a.data(), cols};
}

bool same_bits(const float* a, const float* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

class Checks {
 public:
  explicit Checks(const Sizes& sizes) : s_(sizes) {
    std::printf("| operation | case | largest error | allowed | |\n|---|---|---|---|---|\n");
  }
  int failures() const { return failures_; }

  void row(const std::string& operation, const std::string& what, double error, double allowed) {
    const bool good = error <= allowed;  // not where it is NaN
    failures_ += good ? 0 : 1;
    std::printf("| %s | %s | %.3g | %.3g | %s |\n", operation.c_str(), what.c_str(), error, allowed,
                good ? "ok" : "**FAILED**");
    std::fflush(stdout);
  }
  void claim(const std::string& operation, const std::string& what, bool holds) {
    failures_ += holds ? 0 : 1;
    std::printf("| %s | %s | | | %s |\n", operation.c_str(), what.c_str(),
                holds ? "ok" : "**FAILED**");
    std::fflush(stdout);
  }

  void check_embed(WeightType type) {
    const std::uint32_t vocabulary = 1000;
    const auto table = random_weight(type, vocabulary, s_.dim, 1);
    const Array<std::byte> table_on_device(table);
    std::vector<std::uint32_t> tokens(64);
    Random random(2);
    for (std::uint32_t& token : tokens) token = random.below(vocabulary);
    const Array<std::uint32_t> tokens_on_device(tokens);
    const Array<float> y(tokens.size() * s_.dim);
    must(embed({type, table_on_device.data(), tokens_on_device.data(), 64, s_.dim,
                out_rows(y, s_.dim)},
               nullptr),
         "embed");
    const auto values = y.values();
    double error = 0.0;
    for (std::size_t r = 0; r < tokens.size(); ++r) {
      const std::byte* row = table.data() + tokens[r] * row_bytes_of(type, s_.dim);
      for (std::uint32_t i = 0; i < s_.dim; ++i) {
        error =
            larger(error, std::fabs(double{values[r * s_.dim + i]} - weight_number(type, row, i)));
      }
    }
    row("embed", sizes_of(type).name, error, 1e-6);
  }

  void check_rms_norm() {
    const auto x = numbers(1, 64 * s_.dim);
    const auto weight = numbers(2, s_.dim);
    const Array<float> x_on_device(x);
    const Array<float> weight_on_device(weight);
    const Array<float> y(x.size());
    must(rms_norm({rows_of(x_on_device, s_.dim), weight_on_device.data(), out_rows(y, s_.dim), 64,
                   s_.dim, 1e-5f},
                  nullptr),
         "rms_norm");
    const auto values = y.values();
    double error = 0.0;
    for (std::size_t r = 0; r < 64; ++r) {
      double squares = 0.0;
      for (std::uint32_t i = 0; i < s_.dim; ++i) squares += std::pow(double{x[r * s_.dim + i]}, 2);
      const double scale = 1.0 / std::sqrt(squares / s_.dim + double{1e-5f});
      for (std::uint32_t i = 0; i < s_.dim; ++i) {
        const double exact = double{x[r * s_.dim + i]} * scale * double{weight[i]};
        error = larger(error, std::fabs(double{values[r * s_.dim + i]} - exact));
      }
    }
    row("rms_norm", "64 rows", error, 1e-6);
  }

  void check_swiglu() {
    auto gate = numbers(1, 64 * s_.ffn);
    for (float& g : gate) g *= 20.0f;
    const auto up = numbers(2, gate.size());
    const Array<float> gate_on_device(gate);
    const Array<float> up_on_device(up);
    must(swiglu({rows_of(gate_on_device, s_.ffn), rows_of(up_on_device, s_.ffn),
                 out_rows(gate_on_device, s_.ffn), 64, s_.ffn},
                nullptr),
         "swiglu");
    const auto values = gate_on_device.values();
    double error = 0.0;
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double g{gate[i]};
      error =
          larger(error, std::fabs(double{values[i]} - g / (1.0 + std::exp(-g)) * double{up[i]}));
    }
    row("swiglu", "64 rows, in place", error, 2e-5);
  }

  void check_products(WeightType type, std::uint32_t inputs, std::uint32_t outputs) {
    const auto weight = random_weight(type, outputs, inputs, 3);
    const std::uint32_t rows_max = *std::max_element(s_.widths.begin(), s_.widths.end());
    const auto x = numbers(4, std::size_t{rows_max} * inputs);
    const auto bias = numbers(5, outputs);
    const Array<std::byte> weight_on_device(weight);
    const Array<float> x_on_device(x);
    const Array<float> bias_on_device(bias);
    Multiplier multiply(type, weight_on_device, inputs, outputs, rows_max);
    std::vector<float> alone;
    bool invariant = true;
    for (const std::uint32_t width : s_.widths) {
      const Array<float> y(std::size_t{width} * outputs);
      multiply(rows_of(x_on_device, inputs), width, bias_on_device.data(), out_rows(y, outputs));
      const auto values = y.values();
      double error = 0.0;
      double allowed = 0.0;
      Random random(width);
      for (int sample = 0; sample < 200; ++sample) {
        // The corners first.
        const std::uint32_t r = sample < 2 ? width - 1 : random.below(width);
        const std::uint32_t o = sample == 0 ? outputs - 1 : sample == 1 ? 0 : random.below(outputs);
        const Exact exact = exact_product(type, &x[std::size_t{r} * inputs],
                                          weight.data() + o * row_bytes_of(type, inputs), inputs);
        const double value{values[std::size_t{r} * outputs + o]};
        error = larger(error, std::fabs(value - exact.sum - double{bias[o]}));
        allowed = std::max(allowed, (inputs + 8.0) * 0x1p-24 * (exact.magnitude + 1.0));
      }
      const std::string what = std::string(sizes_of(type).name) + ", " + std::to_string(inputs) +
                               " to " + std::to_string(outputs) + ", " + std::to_string(width) +
                               " rows";
      row("matmul", what, error, allowed);
      if (width == s_.widths.front()) alone = values;
      invariant = invariant && same_bits(alone.data(), values.data(), alone.size());
    }
    claim("matmul",
          std::string(sizes_of(type).name) + ", " + std::to_string(inputs) + " to " +
              std::to_string(outputs) + ": a row has the same bits at every width",
          invariant);
  }

  void check_rope() {
    const std::uint32_t head_dim = 128;
    const std::uint32_t positions_max = 64;
    const auto x = numbers(1, 64 * s_.dim);
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
    const std::vector<std::uint32_t> pages = {5, 0, 2, 1};
    const Array<float> table_on_device(table);
    const Array<std::uint32_t> positions_on_device(positions);
    const Array<std::uint32_t> pages_on_device(pages);
    for (const bool pairs : {false, true}) {
      const Array<float> x_on_device(x);
      const Array<std::uint16_t> stored(6 * 16 * std::size_t{s_.dim});
      must(rope({out_rows(x_on_device, s_.dim),
                 positions_on_device.data(),
                 rows_of(table_on_device, head_dim),
                 64,
                 s_.dim,
                 head_dim,
                 pairs,
                 {reinterpret_cast<std::byte*>(stored.data()), CacheType::f16, s_.dim,
                  pages_on_device.data(), 16},
                 0},
                nullptr),
           "rope");
      const auto values = x_on_device.values();
      const auto halves = stored.values();
      double error = 0.0;
      double store_error = 0.0;
      for (std::size_t r = 0; r < 64; ++r) {
        for (std::uint32_t i = 0; i < s_.dim / 2; ++i) {
          const std::uint32_t f = i % (head_dim / 2);
          const std::size_t head = r * s_.dim + i / (head_dim / 2) * head_dim;
          const std::size_t a = head + (pairs ? 2 * f : f);
          const std::size_t b = head + (pairs ? 2 * f + 1 : f + head_dim / 2);
          const double c{table[positions[r] * head_dim + f]};
          const double s{table[positions[r] * head_dim + head_dim / 2 + f]};
          const double first = double{x[a]} * c - double{x[b]} * s;
          const double second = double{x[b]} * c + double{x[a]} * s;
          error = larger(error, std::fabs(double{values[a]} - first));
          error = larger(error, std::fabs(double{values[b]} - second));
          const std::size_t stored_row = pages[r / 16] * 16 + r % 16;
          const double held{half_value(halves[stored_row * s_.dim + a - r * s_.dim])};
          store_error = larger(store_error, std::fabs(held - double{values[a]}));
        }
      }
      row("rope", pairs ? "pairs" : "halves", error, 3e-7);
      row("rope", "stored in pages as float16", store_error, 1.5 * 0x1p-11);
    }
  }

  void check_attention(CacheType type, bool paged) {
    const bool real = s_.kv_cols >= 1024;
    const Heads heads{real ? 8u : 2u, 4, real ? 128u : 32u};
    const std::uint32_t kv_cols = heads.kv_heads * heads.head_dim;
    const std::uint32_t query_cols = kv_cols * heads.group;
    const std::uint32_t rows = 62;
    const std::uint32_t page_slots = 64;
    const std::uint32_t slots = (s_.prefix + rows + page_slots - 1) / page_slots * page_slots;
    std::vector<std::uint32_t> pages(slots / page_slots);
    std::iota(pages.begin(), pages.end(), 0u);
    if (paged) std::reverse(pages.begin(), pages.end());
    const auto place = [&](std::uint32_t slot) {
      return std::size_t{pages[slot / page_slots]} * page_slots + slot % page_slots;
    };
    // Of numbers that every type holds exactly.
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
    const Array<std::uint32_t> pages_on_device(pages);
    const Array<float> q_on_device(q);
    const Array<std::uint64_t> masks_on_device(masks);
    const Array<float> y(q.size());
    const Array<float> scratch(attention_scratch_floats(rows, s_.prefix, rows, heads));
    const auto cache_of = [&](const Array<std::byte>& memory) {
      return Cache{memory.data(), type, kv_cols, paged ? pages_on_device.data() : nullptr,
                   page_slots};
    };
    must(attention({rows_of(q_on_device, query_cols), cache_of(keys_on_device),
                    cache_of(values_on_device), rows, s_.prefix, masks_on_device.data(), rows,
                    heads, out_rows(y, query_cols), scratch.data()},
                   nullptr),
         "attention");
    const auto together = y.values();
    double error = 0.0;
    for (int sample = 0; sample < 40; ++sample) {
      const std::uint32_t r = sample == 0 ? rows - 1 : random.below(rows);
      const std::uint32_t head = random.below(heads.kv_heads * heads.group);
      std::vector<std::size_t> seen;
      for (std::uint32_t slot = 0; slot < s_.prefix; ++slot) seen.push_back(place(slot));
      for (std::uint32_t j = 0; j < rows; ++j) {
        if ((masks[r * kMaskWords] >> j & 1) != 0) seen.push_back(place(s_.prefix + j));
      }
      const std::size_t at = std::size_t{r} * query_cols + head * heads.head_dim;
      const auto exact = exact_attention(&q[at], keys, values, seen, kv_cols,
                                         head / heads.group * heads.head_dim, heads.head_dim);
      for (std::uint32_t d = 0; d < heads.head_dim; ++d) {
        error = larger(error, std::fabs(double{together[at + d]} - exact[d]));
      }
    }
    const char* const names[] = {"f32", "f16", "bf16"};
    const std::string what = std::string(names[static_cast<int>(type)]) +
                             (paged ? ", pages" : ", contiguous") + ", 62 rows of a tree behind " +
                             std::to_string(s_.prefix);
    row("attention", what, error, 4e-6);
    claim("attention", what + ": the bits of plain decoding",
          path_matches(type, heads, keys, values, q, masks, rows, place, together));
  }

  void check_group_attention() {
    const Heads heads{2, 2, s_.kv_cols >= 1024 ? 128u : 32u};
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
    must(group_attention({rows_of(q_on_device, cols * heads.group), rows_of(k_on_device, cols),
                          rows_of(v_on_device, cols), groups, group_rows, heads,
                          out_rows(y, cols * heads.group)},
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
    row("group_attention", "5 positions of 32 layers", error, 2e-6);
  }

  void check_cache_moves() {
    const std::uint32_t cols = s_.kv_cols;
    const auto memory = numbers(1, 128 * std::size_t{cols});
    const std::vector<std::uint32_t> slots = {40, 41, 45, 60, 99};
    const std::vector<std::uint32_t> pages = {7, 3, 1, 0, 2, 6, 5, 4};
    const Array<std::uint32_t> slots_on_device(slots);
    const Array<std::uint32_t> pages_on_device(pages);
    const Array<float> cache(memory);
    const auto place = [&](std::uint32_t slot) { return pages[slot / 16] * 16 + slot % 16; };
    const Cache paged{reinterpret_cast<std::byte*>(cache.data()), CacheType::f32, cols,
                      pages_on_device.data(), 16};
    must(compact({paged, cols, 40, slots_on_device.data(), 5}, nullptr), "compact");
    auto result = cache.values();
    bool good = true;
    for (std::uint32_t i = 0; i < slots.size(); ++i) {
      good = good && same_bits(&result[std::size_t{place(40 + i)} * cols],
                               &memory[std::size_t{place(slots[i])} * cols], cols);
    }
    claim("compact", "5 slots in pages", good);
    const auto x = numbers(2, 8 * std::size_t{cols});
    const Array<float> x_on_device(x);
    must(store({rows_of(x_on_device, cols), 8, cols, paged, 12}, nullptr), "store");
    result = cache.values();
    good = true;
    for (std::uint32_t r = 0; r < 8; ++r) {
      good = good &&
             same_bits(&result[std::size_t{place(12 + r)} * cols], &x[r * std::size_t{cols}], cols);
    }
    claim("store", "8 rows across two pages", good);
  }

  void check_gather_and_mean() {
    const Heads heads{2, 2, 32};
    const std::uint32_t layers = 32;
    const auto memory = numbers(1, layers * 2 * 10 * 64);
    const Array<float> on_device(memory);
    std::vector<Cache> caches(2 * layers);
    for (std::uint32_t i = 0; i < caches.size(); ++i) {
      caches[i] = {reinterpret_cast<std::byte*>(on_device.data() + i * 640), CacheType::f32, 64,
                   nullptr, 0};
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
    claim("gather_layers", "32 layers, paired keys", good);
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
    row("group_mean", "32 rows", error, 1e-6);
  }

  void check_link_rows() {
    const std::vector<std::uint32_t> ends = {s_.kv_cols, s_.kv_cols + 100};
    const std::uint32_t cols = ends.back();
    const auto x = numbers(1, 4 * std::size_t{cols});
    const Array<float> x_on_device(x);
    const Array<std::uint32_t> ends_on_device(ends);
    const Array<std::int8_t> values(x.size());
    const Array<std::uint16_t> scales(8);
    must(link_rows({rows_of(x_on_device, cols), 4, 2, ends_on_device.data(), cols, values.data(),
                    scales.data()},
                   nullptr),
         "link_rows");
    const auto bytes = values.values();
    const auto halves = scales.values();
    double error = 0.0;  // in scales
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double scale{half_value(halves[i / cols * 2 + (i % cols < ends[0] ? 0 : 1)])};
      error = larger(error, std::fabs(bytes[i] * scale - double{x[i]}) / scale);
    }
    // Half a step, and what rounding the scale to float16 leaves of the largest number.
    row("link_rows", "error in scales", error, 0.5 + 127.0 * 0x1p-11);
  }

  void check_choices() {
    const std::uint32_t rows = 62;
    auto logits = numbers(1, std::size_t{rows} * s_.vocabulary);
    for (float& x : logits) x = std::round(x * 2000.0f) / 200.0f;  // with ties
    const Array<float> logits_on_device(logits);
    for (const std::uint32_t k : {1u, 10u, 256u}) {
      const std::size_t stretches = std::size_t{rows} * top_k_stretches(s_.vocabulary);
      const Array<std::uint64_t> keys(2 * stretches * k);
      const Array<ExpSum> exp_sums(stretches);
      const Array<std::uint32_t> tokens(rows * k);
      const Array<float> log_probs(rows * k);
      must(top_k({rows_of(logits_on_device, s_.vocabulary), rows, s_.vocabulary, k, keys.data(),
                  exp_sums.data(), tokens.data(), log_probs.data()},
                 nullptr),
           "top_k");
      const auto chosen = tokens.values();
      const auto probabilities = log_probs.values();
      bool good = true;
      double error = 0.0;
      for (std::uint32_t r = 0; r < rows; r += 7) {
        const float* x = &logits[std::size_t{r} * s_.vocabulary];
        std::vector<std::uint32_t> order(s_.vocabulary);
        std::iota(order.begin(), order.end(), 0u);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return x[a] > x[b]; });
        double sum = 0.0;
        for (std::uint32_t i = 0; i < s_.vocabulary; ++i) sum += std::exp(double{x[i]});
        for (std::uint32_t i = 0; i < k; ++i) {
          good = good && chosen[r * k + i] == order[i];
          error = larger(error, std::fabs(double{probabilities[r * k + i]} -
                                          (double{x[order[i]]} - std::log(sum))));
        }
      }
      claim("top_k", "k = " + std::to_string(k) + ": order", good);
      row("top_k", "k = " + std::to_string(k) + ": log probabilities", error, 1e-5);
    }
    const Array<std::uint64_t> best(std::vector<std::uint64_t>(rows, 0));
    must(argmax({rows_of(logits_on_device, s_.vocabulary), rows, s_.vocabulary, best.data()},
                nullptr),
         "argmax");
    const auto best_keys = best.values();
    bool good = true;
    for (std::uint32_t r = 0; r < rows; ++r) {
      const auto first = logits.begin() + static_cast<std::ptrdiff_t>(r) * s_.vocabulary;
      good = good &&
             argmax_token(best_keys[r]) == std::max_element(first, first + s_.vocabulary) - first;
    }
    claim("argmax", "62 rows", good);
  }

 private:
  struct Exact {
    double sum = 0.0;
    double magnitude = 0.0;
  };

  // Launches the product of a weight in any type.
  class Multiplier {
   public:
    Multiplier(WeightType type, const Array<std::byte>& weight, std::uint32_t inputs,
               std::uint32_t outputs, std::uint32_t rows_max)
        : type_(type),
          inputs_(inputs),
          outputs_(outputs),
          weight_(weight),
          packed_(is_float(type) ? 0 : packed_layout(type, outputs, inputs).total),
          values_(std::size_t{rows_max} * stretches(inputs) * kStretch),
          scales_(std::size_t{rows_max} * stretches(inputs)),
          sums_(std::size_t{rows_max} * stretches(inputs) * 4) {
      if (is_float(type)) return;
      must(pack_weight({type, weight.data(), outputs, inputs, packed_.data()}, nullptr),
           "pack_weight");
    }
    void operator()(ConstRows x, std::uint32_t rows, const float* bias, Rows y) const {
      if (is_float(type_)) {
        must(matmul({x, type_, rows, inputs_, 1, {{weight_.data(), bias, y, outputs_, false}}},
                    nullptr),
             "matmul");
        return;
      }
      must(quantize({x, rows, inputs_, values_.data(), scales_.data(), sums_.data()}, nullptr),
           "quantize");
      must(int8_matmul({values_.data(),
                        scales_.data(),
                        sums_.data(),
                        type_,
                        rows,
                        inputs_,
                        1,
                        {{packed_.data(), bias, y, outputs_, false}}},
                       nullptr),
           "int8_matmul");
    }

   private:
    WeightType type_;
    std::uint32_t inputs_;
    std::uint32_t outputs_;
    const Array<std::byte>& weight_;
    Array<std::byte> packed_;
    Array<std::byte> values_;
    Array<float> scales_;
    Array<std::int32_t> sums_;
  };

  // NaN stays.
  static double larger(double a, double b) { return a > b ? a : b > a || b == a ? b : NAN; }

  static Exact exact_product(WeightType type, const float* x, const std::byte* row,
                             std::uint32_t inputs) {
    Exact exact;
    for (std::uint32_t first = 0; first < inputs; first += kStretch) {
      const std::uint32_t end = std::min(first + kStretch, inputs);
      float largest = 0.0f;
      for (std::uint32_t i = first; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
      const float inverse = 127.0f / largest;
      for (std::uint32_t i = first; i < end; ++i) {
        const double activation =
            is_float(type) ? double{x[i]}
                           : double{largest / 127.0f} * double{std::nearbyint(x[i] * inverse)};
        const double product = activation * weight_number(type, row, i);
        exact.sum += product;
        exact.magnitude += std::fabs(product);
      }
    }
    return exact;
  }

  static std::vector<double> exact_attention(const float* q, const std::vector<float>& keys,
                                             const std::vector<float>& values,
                                             const std::vector<std::size_t>& seen,
                                             std::size_t stride, std::size_t column,
                                             std::uint32_t head_dim) {
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
  static std::vector<std::byte> stored(CacheType type, const std::vector<float>& values) {
    std::vector<std::byte> bytes(values.size() * (type == CacheType::f32 ? 4 : 2));
    if (type == CacheType::f32) {
      std::memcpy(bytes.data(), values.data(), bytes.size());
      return bytes;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      int exponent = 0;
      const float fraction = std::frexp(std::fabs(values[i]), &exponent);  // in [1/2, 1)
      std::uint32_t bits = std::signbit(values[i]) ? 0x8000u : 0u;
      if (fraction != 0.0f) {
        const bool half = type == CacheType::f16;
        const auto point =
            static_cast<std::uint32_t>((2.0f * fraction - 1.0f) * (half ? 1024 : 128));
        bits |= half ? static_cast<std::uint32_t>(exponent + 14) << 10 | point
                     : static_cast<std::uint32_t>(exponent + 126) << 7 | point;
      }
      const auto word = static_cast<std::uint16_t>(bits);
      std::memcpy(&bytes[2 * i], &word, sizeof word);
    }
    return bytes;
  }

  // The last row's path, moved together behind the prefix and run as one plain row.
  template <class Place>
  bool path_matches(CacheType type, const Heads& heads, const std::vector<float>& keys,
                    const std::vector<float>& values, const std::vector<float>& q,
                    const std::vector<std::uint64_t>& masks, std::uint32_t rows, const Place& place,
                    const std::vector<float>& together) const {
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
    for (std::uint32_t slot = 0; slot < s_.prefix; ++slot) add(slot);
    for (std::uint32_t j = 0; j < rows; ++j) {
      if ((masks[(rows - 1) * kMaskWords] >> j & 1) != 0) add(s_.prefix + j);
    }
    const Array<std::byte> keys_on_device(stored(type, path_keys));
    const Array<std::byte> values_on_device(stored(type, path_values));
    const std::size_t row_at = (rows - 1) * query_cols;
    const Array<float> q_on_device(
        std::vector<float>(q.begin() + static_cast<std::ptrdiff_t>(row_at), q.end()));
    const Array<float> y(query_cols);
    const Array<float> scratch(attention_scratch_floats(1, count, 0, heads));
    must(attention({rows_of(q_on_device, query_cols),
                    {keys_on_device.data(), type, kv_cols, nullptr, 0},
                    {values_on_device.data(), type, kv_cols, nullptr, 0},
                    1,
                    count,
                    nullptr,
                    0,
                    heads,
                    out_rows(y, query_cols),
                    scratch.data()},
                   nullptr),
         "attention");
    return same_bits(y.values().data(), &together[row_at], query_cols);
  }

  Sizes s_;
  int failures_ = 0;
};

}  // namespace

int run_checks(bool small) {
  const Sizes s = small ? small_sizes() : real_sizes();
  constexpr WeightType kTypes[] = {WeightType::f32,  WeightType::f16,  WeightType::bf16,
                                   WeightType::q8_0, WeightType::q4_0, WeightType::q4_k,
                                   WeightType::q5_k, WeightType::q6_k};
  Checks checks(s);
  for (const WeightType type : kTypes) checks.check_embed(type);
  checks.check_rms_norm();
  checks.check_swiglu();
  for (const WeightType type : kTypes) {
    checks.check_products(type, s.dim, s.kv_cols);
    if (!small) {
      checks.check_products(type, s.dim, s.ffn);
      checks.check_products(type, s.ffn, s.dim);
    }
  }
  checks.check_products(WeightType::bf16, 333, 100);
  checks.check_rope();
  for (const CacheType type : {CacheType::f32, CacheType::f16, CacheType::bf16}) {
    for (const bool paged : {false, true}) checks.check_attention(type, paged);
  }
  checks.check_group_attention();
  checks.check_cache_moves();
  checks.check_gather_and_mean();
  checks.check_link_rows();
  checks.check_choices();
  std::printf("\n%d failed.\n", checks.failures());
  return checks.failures();
}

}  // namespace edgedraft::cuda::check
