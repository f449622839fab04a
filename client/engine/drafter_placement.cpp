#include "client/engine/drafter_placement.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "client/devices/fallback_drafter.h"
#include "client/devices/timing_cache.h"
#include "shared/base/log.h"

namespace edgedraft::client {
namespace {

SharedDrafters::Loader loader_for(const DrafterPlacement::Options& o, const ComputeDevice& device,
                                  std::uint32_t positions) {
  return [&bundle = o.bundle, device, positions, threads = o.threads, meter = o.meter] {
    auto backend = make_backend(device, threads, meter);
    if (!backend) throw DeviceError(backend.error().message);
    auto weights = bundle.load_drafter(**backend, positions);
    return LoadedDrafter{.backend = std::move(*backend), .weights = std::move(weights)};
  };
}

std::uint32_t positions_wanted(const DrafterPlacement::Options& o) {
  const std::uint32_t context = o.bundle.context_count();
  return o.positions == 0 ? context : std::min(o.positions, context);
}

Result<MemoryFit> fit_on(const ComputeDevice& device, const DrafterPlacement::Options& o,
                         const MemoryFit& wanted) {
  return fit_memory(o.meter->limit() - o.reserved, wanted.positions, wanted.conversations,
                    [&](std::uint32_t positions) {
                      MemoryNeed need = DrafterPlacement::need_on(device, o, positions);
                      if (o.beside) need += o.beside(positions);
                      return need;
                    });
}

// If a GPU fails, the CPU takes over within the same memory.
Result<MemoryFit> fit_with_successor(const ComputeDevice& device, const ComputeDevice& cpu,
                                     const DrafterPlacement::Options& o) {
  MemoryFit fit{.positions = positions_wanted(o), .conversations = o.conversations, .need = {}};
  if (!o.meter->is_limited()) return fit;
  if (device.id != cpu.id) {
    const auto successor = fit_on(cpu, o, fit);
    if (!successor) return successor.error();
    fit = *successor;
  }
  auto fitted = fit_on(device, o, fit);
  if (!fitted && device.id != cpu.id) {
    return Error{fitted.error().code,
                 fitted.error().message + ". It fits on the CPU (--device cpu)"};
  }
  return fitted;
}

void tell(const MemoryFit& fit, const DrafterPlacement::Options& o) {
  if (!o.meter->is_limited()) return;
  const std::string limit = "--memory " + mebibytes(o.meter->limit()) + " suffices for ";
  if (fit.conversations < o.conversations) {
    o.log->warn("{}{} conversations at once, not {}", limit, fit.conversations, o.conversations);
  }
  if (fit.positions < positions_wanted(o)) {
    o.log->warn("{}drafting in the first {} tokens of a conversation, not {}", limit, fit.positions,
                positions_wanted(o));
  }
  o.log->info(
      "drafter memory: weights {}, working memory {}, KV cache {} for each of {} conversations",
      mebibytes(fit.need.weights), mebibytes(fit.need.scratch), mebibytes(fit.need.cache),
      fit.conversations);
}

}  // namespace

MemoryNeed DrafterPlacement::need_on(const ComputeDevice& device, const Options& o,
                                     std::uint32_t positions) {
  const DrafterModel& model = o.bundle.drafter();
  const std::uint32_t held = std::min(positions, o.bundle.context_count());
  const auto backend = plan_backend(device, o.threads).value();
  MemoryNeed need = memory_need(model, *backend, held, o.tree);
  if (device.vulkan_index) {
    const std::uint32_t cols = model.load(*backend, 1)->make_drafter()->activation_cols();
    need.cache += FallbackDrafter::kept_bytes_max(cols, held);
  }
  return need;
}

Result<std::unique_ptr<DrafterPlacement>> DrafterPlacement::choose(const Options& o) {
  const bool cpu_asked_for = o.device.kind == DeviceRequest::Kind::cpu;
  std::vector<ComputeDevice> devices =
      cpu_asked_for ? std::vector{cpu_device(o.threads)} : list_compute_devices(o.threads);
  for (ComputeDevice& device : devices) {
    if (device.takes_kv_type(o.kv_type)) device.kv_type = o.kv_type;
  }
  const ComputeDevice& cpu = devices.front();
  TimingCache cache(TimingCache::default_file());
  const MeasureDevice measure = make_measure({.drafter = o.bundle.drafter(),
                                              .fingerprint = o.bundle.fingerprint(),
                                              .kinds = std::string(o.bundle.drafter_kind()),
                                              .tree = o.tree,
                                              .threads = o.threads,
                                              .cache = cache,
                                              .meter = o.meter,
                                              .known = MeasuringOptions::Known::take});
  const auto choice =
      choose_device(o.device, devices, [&](const ComputeDevice& device) -> Result<StepTiming> {
        if (const auto fit = fit_with_successor(device, cpu, o); !fit) return fit.error();
        return measure(device);
      });
  if (!choice) return choice.error();
  const ComputeDevice& device = choice->device;
  o.log->log(choice->is_second_best ? spdlog::level::warn : spdlog::level::info,
             "drafting on {}: {}", title(device), choice->reason);
  auto fit = fit_with_successor(device, cpu, o);
  if (!fit) return fit.error();
  tell(*fit, o);
  std::unique_ptr<DrafterPlacement> placement(new DrafterPlacement());
  placement->fit_ = *fit;
  placement->move_to(device, choice->reason);
  SharedDrafters::Options drafters{.first = loader_for(o, device, fit->positions),
                                   .positions_max = fit->positions};
  if (device.id != cpu.id) {
    drafters.second = loader_for(o, cpu, fit->positions);
    drafters.on_failure = [placement = placement.get(), log = o.log, device,
                           cpu](const std::string& why) {
      const std::string reason = title(device) + " failed: " + why;
      log->warn("{}. Drafting continues on the CPU; nothing is lost", reason);
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

}  // namespace edgedraft::client
