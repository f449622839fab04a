#include "client/commands/devices.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "client/commands/commands.h"
#include "client/devices/timing_cache.h"
#include "client/engine/bundle_file.h"
#include "client/engine/drafter_placement.h"
#include "client/engine/memory_fit.h"
#include "client/json_line.h"
#include "shared/base/progress.h"
#include "shared/program/validators.h"

namespace edgedraft::client {
namespace {

using nlohmann::ordered_json;

std::string summary(const ComputeDevice& device) {
  std::string text = device.name + ", " + device.driver;
  if (device.memory_bytes > 0) {
    text += fmt::format(", {:.1f} GiB", static_cast<double>(device.memory_bytes) / (1u << 30));
  }
  return device.vulkan_index ? text + ", " + device.kind : text;
}

std::string measurement(const ListedDevice& listed) {
  if (!listed.device.unusable.empty()) return "cannot be used: " + listed.device.unusable;
  if (!listed.failure.empty()) return "failed: " + listed.failure;
  if (!listed.timing) return {};
  return fmt::format("{:.2f} ms per drafting step, {:.2f} GB/s of weights",
                     listed.timing->seconds * 1e3, listed.timing->bytes_per_second * 1e-9);
}

std::string memory_text(const MemoryNeed& need) {
  return "memory: " + mebibytes(need.weights) + " of weights, " + mebibytes(need.scratch) +
         " of working memory, " + mebibytes(need.cache) + " of KV cache per conversation";
}

ordered_json device_json(const ListedDevice& listed) {
  const ComputeDevice& d = listed.device;
  const auto or_null = [](const std::string& text) {
    return text.empty() ? ordered_json(nullptr) : ordered_json(text);
  };
  ordered_json json{{"device", d.id},
                    {"name", d.name},
                    {"driver", d.driver},
                    {"kind", d.kind},
                    {"memory_bytes", d.memory_bytes},
                    {"features", d.features},
                    {"unusable", or_null(d.unusable)},
                    {"step_seconds", nullptr},
                    {"bytes_per_second", nullptr},
                    {"weights_bytes", nullptr},
                    {"working_bytes", nullptr},
                    {"conversation_bytes", nullptr},
                    {"failure", or_null(listed.failure)}};
  if (listed.timing) {
    json["step_seconds"] = listed.timing->seconds;
    json["bytes_per_second"] = listed.timing->bytes_per_second;
  }
  if (listed.need) {
    json["weights_bytes"] = listed.need->weights;
    json["working_bytes"] = listed.need->scratch;
    json["conversation_bytes"] = listed.need->cache;
  }
  return json;
}

}  // namespace

void declare_devices(CLI::App& app, DevicesOptions& options) {
  app.add_option("--bundle", options.bundle,
                 "Measure the devices with this drafter; if repeated, with the first")
      ->type_name("FILE.gguf")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeFirst);
  app.add_option("--threads", options.threads, "CPU threads; 0: one per fast core")
      ->type_name("N")
      ->check(in_range(std::int64_t{0}, std::int64_t{1024}))
      ->capture_default_str();
  app.add_flag("--json", options.json, "Print one JSON object to standard output");
  app.footer(
      "Shows which device --device auto selects and why: the one with the shortest drafting step,\n"
      "which is one level of a tree of 8,6,62. With --bundle, every device is measured again, and\n"
      "the drafter's memory on each is shown; `run`, `chat` and `serve` measure once per drafter\n"
      "and keep the result. Software rasterisers are measured here but never selected\n"
      "automatically.\n"
      "Example:\n"
      "  edgedraft devices --bundle drafter.gguf");
}

DeviceList make_device_list(const std::vector<ComputeDevice>& devices,
                            const std::optional<MeasureDevice>& measure) {
  DeviceList list;
  for (const ComputeDevice& device : devices) {
    ListedDevice listed{.device = device, .timing = {}, .failure = {}, .need = {}};
    if (measure && device.unusable.empty()) {
      const auto timing = (*measure)(device);
      if (timing) {
        listed.timing = *timing;
      } else {
        listed.failure = timing.error().message;
      }
    }
    list.devices.push_back(std::move(listed));
  }
  bool is_known = true;
  auto choice = choose_device({}, devices, [&](const ComputeDevice& wanted) -> Result<StepTiming> {
    is_known = measure.has_value();
    for (const ListedDevice& listed : list.devices) {
      if (listed.device.id == wanted.id && listed.timing) return *listed.timing;
      if (listed.device.id == wanted.id) return Error{Errc::io, listed.failure};
    }
    return Error{Errc::io, "not measured"};
  });
  if (choice && is_known) list.automatic = std::move(*choice);
  return list;
}

void print(const DeviceList& list, std::ostream& out) {
  for (const ListedDevice& listed : list.devices) {
    const std::string indent(std::string("vulkan:0").size() + 2, ' ');
    std::string id = listed.device.id;
    id.resize(std::max(id.size() + 1, indent.size()), ' ');
    out << id << summary(listed.device) << '\n';
    std::string features;
    for (const std::string& feature : listed.device.features) {
      features += (features.empty() ? "" : ", ") + feature;
    }
    const std::string memory = listed.need ? memory_text(*listed.need) : "";
    for (const std::string& line : {features, measurement(listed), memory}) {
      if (!line.empty()) out << indent << line << '\n';
    }
  }
  if (list.automatic) {
    out << "auto selects " << list.automatic->device.id << ": " << list.automatic->reason << '\n';
  } else {
    out << "auto selects the fastest device for the drafter: give --bundle FILE to see which\n";
  }
}

std::string to_json(const DeviceList& list) {
  ordered_json json{
      {"devices", ordered_json::array()}, {"auto", nullptr}, {"auto_reason", nullptr}};
  for (const ListedDevice& listed : list.devices) json["devices"].push_back(device_json(listed));
  if (list.automatic) {
    json["auto"] = list.automatic->device.id;
    json["auto_reason"] = list.automatic->reason;
  }
  return json_line(json);
}

Result<int> run_devices(const DevicesOptions& o) {
  const auto threads = static_cast<std::uint32_t>(o.threads);
  const std::vector<ComputeDevice> devices = list_compute_devices(threads);
  std::optional<BundleFile> bundle;
  TimingCache cache(TimingCache::default_file());
  Progress progress("measuring", devices.size());
  std::optional<MeasureDevice> measure;
  if (!o.bundle.empty()) {
    auto opened = BundleFile::open(o.bundle, BundleUse::draft);
    if (!opened) return opened.error();
    bundle.emplace(std::move(*opened));
    measure = [&, time = make_measure({.drafter = bundle->drafter(),
                                       .fingerprint = bundle->fingerprint(),
                                       .kinds = std::string(bundle->drafter_kind()),
                                       .tree = TreeShape{},
                                       .threads = threads,
                                       .cache = cache,
                                       .known = MeasuringOptions::Known::renew})](
                  const ComputeDevice& device) {
      auto timing = time(device);
      progress.advance(1);
      return timing;
    };
  }
  DeviceList list = make_device_list(devices, measure);
  for (ListedDevice& listed : list.devices) {
    if (!bundle || !listed.device.unusable.empty()) continue;
    listed.need = DrafterPlacement::need_on(
        listed.device, {.bundle = *bundle, .tree = TreeShape{}, .threads = threads},
        bundle->context_count());
  }
  if (o.json) {
    std::cout << to_json(list) << std::endl;
  } else {
    print(list, std::cout);
  }
  return 0;
}

}  // namespace edgedraft::client
