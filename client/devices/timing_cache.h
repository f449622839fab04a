#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "client/devices/step_timing.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// What a measurement was made of; another one needs another measurement.
struct TimingKey {
  std::string device;  // its maker's name
  std::string driver;
  std::string bundle;          // fingerprint in hexadecimal, and the kinds that draft
  DType kv_type = DType::f32;  // of the caches
  TreeShape tree;

  bool operator==(const TimingKey&) const = default;
};

// Measurements of former runs, in a JSON file. A file that is damaged, or of another version of
// this program, counts as empty and is written anew; one that cannot be written is done without.
class TimingCache {
 public:
  // More measurements than anyone's devices and drafters need; the oldest go first.
  static constexpr std::size_t kEntriesMax = 64;

  explicit TimingCache(std::filesystem::path file);
  // Where it belongs: devices.json in cache_directory().
  static std::filesystem::path default_file();

  std::optional<StepTiming> find(const TimingKey& key) const;
  // Keeps the measurement, here and in the file.
  // Errors    io: only here
  Result<void> put(const TimingKey& key, const StepTiming& timing);

 private:
  struct Entry {
    TimingKey key;
    StepTiming timing;
  };

  std::filesystem::path file_;
  std::vector<Entry> entries_;  // oldest first
};

}  // namespace edgedraft
