#include <cmath>

#include "kernels/cpu/experts.h"

namespace edgedraft::cpu {
namespace {

float sortable(float logit) {
  return std::isnan(logit) ? -INFINITY : logit;
}

}  // namespace

// Inserts each logit into the sorted choice. Float64 exponentials round to the same float32 weights
// with every C library.
void route(const RouteArgs& a, const Work& work) {
  std::size_t chosen[kExpertsUsedMax];
  double terms[kExpertsUsedMax];
  for (std::size_t r = work.begin; r < work.end; ++r) {
    const float* logits = a.logits.data + r * a.logits.stride;
    std::size_t found = 0;
    for (std::size_t e = 0; e < a.count; ++e) {
      const float logit = sortable(logits[e]);
      if (found == a.used && !(logit > sortable(logits[chosen[found - 1]]))) continue;
      std::size_t place = found < a.used ? found++ : found - 1;
      for (; place > 0 && logit > sortable(logits[chosen[place - 1]]); --place) {
        chosen[place] = chosen[place - 1];
      }
      chosen[place] = e;
    }
    const double largest = static_cast<double>(logits[chosen[0]]);
    double sum = 0.0;
    for (std::size_t u = 0; u < a.used; ++u) {
      sum += terms[u] = std::exp(static_cast<double>(logits[chosen[u]]) - largest);
    }
    for (std::size_t u = 0; u < a.used; ++u) {
      a.experts.data[r * a.experts.stride + u] = static_cast<float>(chosen[u]);
      a.weights.data[r * a.weights.stride + u] = static_cast<float>(terms[u] / sum);
    }
  }
}

}  // namespace edgedraft::cpu
