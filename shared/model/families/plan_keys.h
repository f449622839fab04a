#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/config.h"
#include "shared/model/gguf.h"

namespace edgedraft {

// Reads an architecture's keys. After the first error it returns neutral values, so a family reads
// all it needs and the caller checks once.
class PlanKeys {
 public:
  PlanKeys(const GgufKeys& keys, std::string_view architecture)
      : keys_(keys), prefix_(std::string(architecture) + ".") {}

  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  bool has(std::string_view key) const { return keys_.find_value(full(key)) != nullptr; }

  // A number from 1 to `max`.
  std::uint32_t count(std::string_view key, std::uint32_t max);
  // As above, or `fallback`, which may be 0, without the key.
  std::uint32_t count_or(std::string_view key, std::uint32_t max, std::uint32_t fallback);
  // One number for every layer: a value for all, or an array with a value for each. May be 0.
  std::vector<std::uint32_t> counts(std::string_view key, std::uint32_t layers, std::uint32_t max);
  // A flag for every layer. Empty without the key.
  std::vector<bool> flags(std::string_view key, std::uint32_t layers);
  // Any number, 0 included.
  std::uint32_t size_or(std::string_view key, std::uint32_t fallback);
  bool flag_or(std::string_view key, bool fallback);
  // A number that may be infinite or none.
  float number(std::string_view key);
  // A finite number.
  float number_or(std::string_view key, float fallback);
  // A finite number, at least 0.
  float not_negative_or(std::string_view key, float fallback);
  // A finite positive number.
  float positive_or(std::string_view key, float fallback);
  std::string text_or(std::string_view key, std::string_view fallback);

  void fail(Error error);
  void refuse(std::string_view key, const std::string& why);
  const std::optional<Error>& error() const { return error_; }

 private:
  template <class T>
  T take(const Result<T>& value, T neutral);

  const GgufKeys& keys_;
  std::string prefix_;
  std::optional<Error> error_;
};

// The sizes of the experts that every layer has.
ExpertShape read_experts(PlanKeys& keys);

}  // namespace edgedraft
