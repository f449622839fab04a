#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/devices/device_choice.h"
#include "shared/base/sha256.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/runtime/memory_meter.h"
#include "shared/tensor/dtype.h"

namespace edgedraft::client {

// Conditions of a measurement; it is valid only for the same ones.
struct TimingKey {
  std::string device;  // from its vendor
  std::string driver;
  std::string bundle;          // fingerprint in hexadecimal, and the drafting kinds
  DType kv_type = DType::f32;  // type of the KV caches
  TreeShape tree;

  bool operator==(const TimingKey&) const = default;
};

// Measurements of earlier runs, in a JSON file. A file that is damaged or of another program
// version counts as empty and is rewritten; a file that cannot be written is ignored.
class TimingCache {
 public:
  // Bounds the file; beyond it, the oldest entries are dropped.
  static constexpr std::size_t kEntriesMax = 64;

  explicit TimingCache(std::filesystem::path file);
  // devices.json in cache_directory().
  static std::filesystem::path default_file();

  std::optional<StepTiming> find(const TimingKey& key) const;
  // Stores the measurement, in memory and in the file.
  // Errors    io: stored in memory only
  Result<void> put(const TimingKey& key, const StepTiming& timing);

 private:
  struct Entry {
    TimingKey key;
    StepTiming timing;
  };

  std::filesystem::path file_;
  std::vector<Entry> entries_;  // oldest first
};

struct MeasuringOptions {
  const DrafterModel& drafter;
  Digest fingerprint;  // digest of the bundle's file
  std::string kinds;   // drafting kinds
  TreeShape tree;
  std::uint32_t threads;  // CPU threads
  TimingCache& cache;
  std::shared_ptr<MemoryMeter> meter = nullptr;  // meters the devices' memory
  // Use of earlier measurements.
  enum class Known : std::uint8_t { take, renew } known;
};

// Times drafting steps.
//
// Requires  drafter and cache outlive the result
MeasureDevice make_measure(const MeasuringOptions& options);

}  // namespace edgedraft::client
