#include "client/devices/timing_cache.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/devices/cache_file.h"
#include "shared/base/bytes.h"
#include "shared/program/options.h"

namespace edgedraft::client {
namespace {

using nlohmann::json;

json to_json(const TimingKey& key, const StepTiming& timing) {
  return {{"device", key.device},
          {"driver", key.driver},
          {"bundle", key.bundle},
          {"kv_type", traits(key.kv_type).name},
          {"tree", {key.tree.breadth, key.tree.depth, key.tree.nodes}},
          {"seconds", timing.seconds},
          {"bytes_per_second", timing.bytes_per_second}};
}

bool is_positive(double number) {
  return std::isfinite(number) && number > 0;
}

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

TimingCache::TimingCache(std::filesystem::path file) : file_(std::move(file)) {
  const auto stored = read_cache_file(file_);
  if (!stored) return;
  try {
    std::vector<Entry> entries;
    for (const json& item : stored->at("measured")) {
      const auto kv_type = dtype_from_name(item.at("kv_type").get<std::string>());
      if (!kv_type) return;
      const auto tree = item.at("tree").get<std::array<std::uint32_t, 3>>();
      const Entry entry{.key = {.device = item.at("device"),
                                .driver = item.at("driver"),
                                .bundle = item.at("bundle"),
                                .kv_type = *kv_type,
                                .tree = {.breadth = tree[0], .depth = tree[1], .nodes = tree[2]}},
                        .timing = {.seconds = item.at("seconds"),
                                   .bytes_per_second = item.at("bytes_per_second")}};
      if (!is_positive(entry.timing.seconds) || !is_positive(entry.timing.bytes_per_second)) return;
      if (entries.size() < kEntriesMax) entries.push_back(entry);
    }
    entries_ = std::move(entries);
  } catch (const json::exception&) {
    // Unreadable content counts as no measurements.
  }
}

std::filesystem::path TimingCache::default_file() {
  return place_in(cache_directory(), "devices.json");
}

std::optional<StepTiming> TimingCache::find(const TimingKey& key) const {
  for (const Entry& entry : entries_) {
    if (entry.key == key) return entry.timing;
  }
  return std::nullopt;
}

Result<void> TimingCache::put(const TimingKey& key, const StepTiming& timing) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
  if (entries_.size() == kEntriesMax) entries_.erase(entries_.begin());
  entries_.push_back({.key = key, .timing = timing});
  json measured = json::array();
  for (const Entry& entry : entries_) measured.push_back(to_json(entry.key, entry.timing));
  return write_cache_file(file_, {{"measured", measured}});
}

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
