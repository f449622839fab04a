#include "client/engine/drafter_placement.h"

#include <utility>
#include <vector>

#include "client/devices/device_choice.h"
#include "client/devices/measuring.h"
#include "client/devices/timing_cache.h"
#include "shared/base/log.h"

namespace edgedraft {
namespace {

SharedDrafters::Loader loader_for(const BundleFile& bundle, const ComputeDevice& device,
                                  std::uint32_t threads) {
  return [&bundle, device, threads] {
    auto backend = make_backend(device, threads);
    if (!backend) throw DeviceError(backend.error().message);
    auto weights = bundle.load_drafter(**backend);
    return LoadedDrafter{.backend = std::move(*backend), .weights = std::move(weights)};
  };
}

}  // namespace

Result<std::unique_ptr<DrafterPlacement>> DrafterPlacement::choose(const Options& o) {
  const bool cpu_asked_for = o.device.kind == DeviceRequest::Kind::cpu;
  const std::vector<ComputeDevice> devices =
      cpu_asked_for ? std::vector{cpu_device(o.threads)} : list_compute_devices(o.threads);
  TimingCache cache(TimingCache::default_file());
  const auto choice = choose_device(o.device, devices,
                                    make_measure({.drafter = o.bundle.drafter(),
                                                  .fingerprint = o.bundle.fingerprint(),
                                                  .kinds = std::string(o.bundle.drafter_kind()),
                                                  .tree = o.tree,
                                                  .threads = o.threads,
                                                  .cache = cache,
                                                  .known = MeasuringOptions::Known::take}));
  if (!choice) return choice.error();
  const ComputeDevice& device = choice->device;
  o.log->log(choice->is_second_best ? spdlog::level::warn : spdlog::level::info, "drafts on {}: {}",
             title(device), choice->reason);
  std::unique_ptr<DrafterPlacement> placement(new DrafterPlacement());
  placement->move_to(device, choice->reason);
  const ComputeDevice& cpu = devices.front();
  SharedDrafters::Options drafters{.first = loader_for(o.bundle, device, o.threads)};
  if (device.id != cpu.id) {
    drafters.second = loader_for(o.bundle, cpu, o.threads);
    drafters.on_failure = [placement = placement.get(), log = o.log, device,
                           cpu](const std::string& why) {
      const std::string reason = title(device) + " failed: " + why;
      log->warn("{}. Drafting goes on on the CPU; nothing is lost", reason);
      placement->move_to(cpu, reason);
    };
  }
  placement->drafters_ = std::make_unique<SharedDrafters>(std::move(drafters));
  return placement;
}

void DrafterPlacement::move_to(const ComputeDevice& device, const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  place_ = {.id = device.id, .name = device.name, .reason = reason};
}

DrafterPlacement::Place DrafterPlacement::place() const {
  const std::scoped_lock lock(mutex_);
  return place_;
}

}  // namespace edgedraft
