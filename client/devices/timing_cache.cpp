#include "client/devices/timing_cache.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "client/devices/cache_file.h"
#include "shared/base/bytes.h"
#include "shared/base/clock.h"
#include "shared/base/percentile.h"
#include "shared/base/random.h"
#include "shared/program/options.h"

namespace edgedraft::client {
namespace {

using nlohmann::json;

constexpr std::uint32_t kPromptTokens = 64;
constexpr std::size_t kTriesMax = 50;
constexpr std::size_t kTriesMin = 5;
constexpr Duration kEnough = std::chrono::milliseconds(250);

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

// Grows trees of made-up tokens and activations after a short prompt. Returns the median, without
// the first. Takes about a quarter of a second, plus the drafter's start-up.
//
// Throws DeviceError if the device fails.
Result<StepTiming> time_drafting_step(const DrafterModel& model, Backend& backend,
                                      const TreeShape& tree) {
  const DrafterFacts& facts = model.facts();
  const std::uint32_t depth = std::min(tree.depth, std::max(facts.context_count / 2, 1u));
  const std::uint32_t positions = std::min(facts.context_count, kPromptTokens + depth);
  const auto drafter = model.load(backend, positions)->make_drafter();
  const std::uint32_t count = std::clamp(facts.context_count - depth, 2u, kPromptTokens);
  Random random(1);
  std::vector<std::uint32_t> tokens(count);
  for (auto& token : tokens)
    token = static_cast<std::uint32_t>(random.below(facts.vocabulary_count));
  // Rows of all positions but the last cycle's, as in a session.
  std::vector<float> rows(std::size_t{count - 1} * drafter->activation_cols());
  for (float& value : rows) value = static_cast<float>(2.0 * random.uniform() - 1.0);
  drafter->append(tokens);
  if (!rows.empty()) drafter->add_activations(0, rows);

  const TreeShape shape{.breadth = tree.breadth, .depth = depth, .nodes = tree.nodes};
  (void)drafter->draft(shape);
  std::vector<double> tries;
  const Instant start = Clock::now();
  while (tries.size() < kTriesMin || (tries.size() < kTriesMax && Clock::now() - start < kEnough)) {
    drafter->truncate(count - 1);
    drafter->append(std::array{tokens.back()});
    const Instant before = Clock::now();
    (void)drafter->draft(shape);
    tries.push_back(seconds(Clock::now() - before));
  }
  const double step = std::max(median(std::move(tries)), 1e-9) / depth;
  return StepTiming{.seconds = step,
                    .bytes_per_second = static_cast<double>(facts.step_bytes) / step};
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
      const auto kv_type = cache_type_from_name(item.at("kv_type").get<std::string>());
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
