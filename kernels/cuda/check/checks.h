#pragma once

#include <cstring>

#include "kernels/cuda/check/support.h"

// Checks of one operation each, against float64 on the host. If that would take minutes, some
// outputs are checked, varying by case.
namespace edgedraft::cuda::check {

struct Sizes {
  std::uint32_t dim;
  std::uint32_t kv_cols;
  std::uint32_t ffn;
  std::uint32_t vocabulary;
  std::uint32_t prefix;
  std::uint32_t long_prefix;  // long enough for chunks or sections (plan_attention)
  std::vector<std::uint32_t> widths;
};

// Lines of a Markdown table.
class Report {
 public:
  explicit Report(const Sizes& sizes) : sizes_(sizes) {
    std::printf("| operation | case | largest error | allowed | |\n|---|---|---|---|---|\n");
  }
  const Sizes& sizes() const { return sizes_; }
  int failures() const { return failures_; }

  void row(const std::string& operation, const std::string& what, double error, double allowed) {
    const bool good = error <= allowed;  // false for NaN
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

 private:
  Sizes sizes_;
  int failures_ = 0;
};

void check_embed(Report& report, DType type);
void check_rms_norm(Report& report);
void check_gate(Report& report);
void check_quantizing(Report& report, std::uint32_t cols);
void check_choices(Report& report);

void check_products(Report& report, DType type, std::uint32_t inputs, std::uint32_t outputs);

void check_attention(Report& report, DType type, bool paged, std::uint32_t prefix);
void check_attention_tiles(Report& report);
void check_group_attention(Report& report);

void check_rope(Report& report);
void check_rope_store(Report& report, DType type);
void check_cache_moves(Report& report, DType type);
void check_gather_and_mean(Report& report);

void check_convolve(Report& report);
void check_delta_rule(Report& report, std::uint32_t dim);

// --- shared ---

inline ConstRows rows_of(const Array<float>& a, std::size_t cols) {
  return {a.data(), cols};
}
inline Rows out_rows(const Array<float>& a, std::size_t cols) {
  return {a.data(), cols};
}
template <class T>
bool same_bits(const T* a, const T* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(T)) == 0;
}
// NaN stays.
inline double larger(double a, double b) {
  return a > b ? a : b > a || b == a ? b : NAN;
}

}  // namespace edgedraft::cuda::check
