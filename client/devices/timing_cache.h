#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "client/devices/step_timing.h"
#include "shared/tensor/dtype.h"

namespace edgedraft::client {

// Conditions of a measurement; it is valid only for the same ones.
struct TimingKey {
  std::string device;  // from its vendor
  std::string driver;
  std::string bundle;          // fingerprint in hexadecimal, and the drafting kinds
  DType kv_type = DType::f32;  // of the caches
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

}  // namespace edgedraft::client
