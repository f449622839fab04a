#include "client/devices/measuring.h"

#include "shared/base/bytes.h"

namespace edgedraft::client {
namespace {

Result<StepTiming> measure(const MeasuringOptions& o, const ComputeDevice& device) {
  try {
    const auto backend = make_backend(device, o.threads, o.meter);
    if (!backend) return backend.error();
    return time_drafting_step(o.drafter, **backend, o.tree);
  } catch (const DeviceError& error) {
    return Error{Errc::io, error.what()};
  }
}

}  // namespace

MeasureDevice make_measure(const MeasuringOptions& options) {
  return [o = options](const ComputeDevice& device) -> Result<StepTiming> {
    const TimingKey key{.device = device.name,
                        .driver = device.driver,
                        .bundle = to_hex(o.fingerprint) + " " + o.kinds,
                        .kv_type = device.kv_type,
                        .tree = o.tree};
    if (o.known == MeasuringOptions::Known::take) {
      if (const auto known = o.cache.find(key)) return *known;
    }
    const auto timing = measure(o, device);
    // On failure, the next run measures again.
    if (timing) (void)o.cache.put(key, *timing);
    return timing;
  };
}

}  // namespace edgedraft::client
