#include "shared/drafting/fused_tap.h"

#include <algorithm>
#include <string>

#include "shared/base/check.h"

namespace edgedraft {

Result<std::vector<std::uint32_t>> fused_states(std::span<const std::int32_t> layers,
                                                std::uint32_t target_layer_count,
                                                std::string_view what) {
  const std::string name(what);
  if (layers.empty() || layers.size() > kFusedStatesMax) {
    return Error{Errc::unsupported, name + " lists " + std::to_string(layers.size()) +
                                        " layers; 1 to " + std::to_string(kFusedStatesMax) +
                                        " are supported"};
  }
  std::vector<std::uint32_t> states;
  for (const std::int32_t layer : layers) {
    if (layer < 0 || static_cast<std::uint32_t>(layer) > target_layer_count) {
      return bad_file(name + " lists the layer " + std::to_string(layer) + " of a target with " +
                      std::to_string(target_layer_count));
    }
    if (!states.empty() && static_cast<std::uint32_t>(layer) <= states.back()) {
      return Error{Errc::unsupported, name + " is not in increasing order"};
    }
    states.push_back(static_cast<std::uint32_t>(layer));
  }
  return states;
}

FusedTap::FusedTap(Backend& backend, const StateFusion& fusion)
    : backend_(backend),
      states_(backend, fusion.states, fusion.target_dim),
      dim_(fusion.fc.rows),
      rms_epsilon_(fusion.rms_epsilon),
      store_(backend),
      fc_(store_.add_matrix(fusion.fc)),
      norm_before_(store_.add_vector(fusion.norm_before)),
      norm_after_(store_.add_vector(fusion.norm_after)),
      read_(backend, kRowsMax, fusion.cols()),
      fused_(backend, kRowsMax, dim_) {
  EDGEDRAFT_CHECK(fusion.fc.cols == fusion.cols());
}

void FusedTap::read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
                    std::span<float> rows) {
  EDGEDRAFT_CHECK(rows.size() == std::size_t{count} * dim_);
  const auto norm = [&](const Matrix& matrix, const Weight& weight) {
    if (!weight) return;
    backend_.rms_norm({.x = matrix, .weight = weight, .y = matrix, .epsilon = rms_epsilon_});
  };
  for (std::uint32_t done = 0; done < count; done += kRowsMax) {
    const std::uint32_t chunk = std::min(kRowsMax, count - done);
    const Matrix x = read_.rows(chunk);
    const Matrix y = fused_.rows(chunk);
    block_.resize(std::size_t{chunk} * x.cols);
    states_.read(cache, first + done, chunk, block_);
    backend_.write(x, block_);
    norm(x, norm_before_);
    backend_.matmul({.x = x, .weight = fc_, .bias = {}, .y = y});
    norm(y, norm_after_);
    backend_.read(y, rows.subspan(std::size_t{done} * dim_, std::size_t{chunk} * dim_));
  }
}

}  // namespace edgedraft
