#include "shared/drafting/moa/memory_projection.h"

#include <array>

namespace edgedraft {

MemoryProjection::MemoryProjection(Backend& backend, const MoaConfig& config,
                                   const MoaTensors& tensors, std::uint32_t rows_max)
    : backend_(backend),
      epsilon_(config.cross_attention.rms_epsilon),
      store_(backend),
      ekv2e_(store_.add_matrix(tensors.ekv2e)),
      ekv2e_bias_(store_.add(tensors.ekv2e_bias)),
      norm_(store_.add_vector(tensors.cross_attention.attn_norm)),
      wk_(store_.add_matrix(tensors.cross_attention.attn_k)),
      wv_(store_.add_matrix(tensors.cross_attention.attn_v)),
      bk_(store_.add_vector(tensors.cross_attention.attn_k_bias)),
      bv_(store_.add_vector(tensors.cross_attention.attn_v_bias)),
      c_(backend, rows_max, config.cross_attention.dim) {}

void MemoryProjection::project(const Matrix& m, const Matrix& keys, const Matrix& values) {
  const Matrix c = c_.rows(m.rows);
  backend_.matmul({.x = m, .weight = ekv2e_, .bias = ekv2e_bias_, .y = c});
  backend_.rms_norm({.x = c, .weight = norm_, .y = c, .epsilon = epsilon_});
  backend_.matmuls(std::array{MatmulOp{.x = c, .weight = wk_, .bias = bk_, .y = keys},
                              MatmulOp{.x = c, .weight = wv_, .bias = bv_, .y = values}});
}

}  // namespace edgedraft
