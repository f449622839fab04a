#include "server/sessions/tap_rows.h"

#include <vector>

#include "shared/protocol/activation_codec.h"

namespace edgedraft::server {

Bytes quantized_rows(Tap& tap, const KvCache& cache, std::uint32_t first, std::uint32_t count) {
  const auto groups = tap.scale_groups();
  const ActivationLayout layout({groups.begin(), groups.end()});
  std::vector<float> values(std::size_t{count} * layout.cols());
  tap.read(cache, first, count, values);
  return quantize_rows(layout, values);
}

}  // namespace edgedraft::server
