#include "netsim/link/options.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>

#include "shared/base/check.h"

namespace edgedraft::netsim {
namespace {

using Nanoseconds = std::chrono::duration<double, std::nano>;

double normal_quantile(double p) {
  static const boost::math::normal standard;
  // The end quantiles are infinite.
  return boost::math::quantile(standard, std::clamp(p, 0x1.0p-54, 1 - 0x1.0p-53));
}

double between(const std::vector<std::pair<double, Duration>>& points, double p) {
  const auto upper = std::upper_bound(points.begin(), points.end(), p,
                                      [](double x, const auto& point) { return x < point.first; });
  if (upper == points.begin()) return Nanoseconds(points.front().second).count();
  if (upper == points.end()) return Nanoseconds(points.back().second).count();
  const auto& low = *(upper - 1);
  const double share = (p - low.first) / (upper->first - low.first);
  const double from = Nanoseconds(low.second).count();
  return from + share * (Nanoseconds(upper->second).count() - from);
}

double drawn(const DelayDistribution& distribution, double p) {
  switch (distribution.kind) {
    case DelayDistribution::Kind::constant:
      break;
    case DelayDistribution::Kind::normal:
      return Nanoseconds(distribution.centre).count() +
             Nanoseconds(distribution.deviation).count() * normal_quantile(p);
    case DelayDistribution::Kind::pareto:
      return Nanoseconds(distribution.centre).count() * std::pow(1 - p, -1 / distribution.shape);
    case DelayDistribution::Kind::table:
      return between(distribution.points, p);
  }
  return Nanoseconds(distribution.centre).count();
}

}  // namespace

Duration delay_quantile(const DelayDistribution& distribution, double p) {
  EDGEDRAFT_CHECK(p >= 0 && p < 1);
  const double clipped = std::clamp(drawn(distribution, p), 0.0, Nanoseconds(kDelayMax).count());
  return distribution.path + std::chrono::duration_cast<Duration>(Nanoseconds(std::round(clipped)));
}

Duration mean_delay(const DelayDistribution& distribution, int steps) {
  if (distribution.kind == DelayDistribution::Kind::constant)
    return distribution.path + distribution.centre;
  double sum = 0;
  for (int i = 0; i < steps; ++i) {
    sum += Nanoseconds(delay_quantile(distribution, (i + 0.5) / steps)).count();
  }
  return std::chrono::duration_cast<Duration>(Nanoseconds(sum / steps));
}

Duration mean_delay(const LinkOptions& options, int steps) {
  Duration mean = mean_delay(options.delay, steps);
  for (const RestDelay& rest : options.rest) {
    if (rest.after > std::chrono::seconds(1)) break;
    mean = mean_delay(options.delay, steps) + (rest.least + rest.most) / 2;
  }
  if (const auto& flow = options.competing) {
    const double bits = 8.0 * 0.75 * flow->share * static_cast<double>(flow->queue_bytes);
    mean += std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(bits / static_cast<double>(options.bits_per_second)));
  }
  return mean;
}

}  // namespace edgedraft::netsim
