#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/gguf_writer.h"

namespace edgedraft {

class SafetensorsModel;

// Keys and tensors of a file that config.json gives.
struct HfValues {
  GgufMetadata metadata;                                            // keys of the architecture
  std::vector<std::pair<std::string, std::vector<float>>> vectors;  // tensors
};

// Translates keys of config.json to GGUF's of an architecture. After the first error it returns
// neutral values, so a family translates all it has and the caller checks once.
class HfKeys {
 public:
  // `architecture` is GGUF's, whose keys go to `out`.
  HfKeys(const nlohmann::json& config, const SafetensorsModel* checkpoint,
         std::string_view architecture, HfValues& out);

  // Whether the key is there and not null.
  bool has(const char* from) const;
  bool has_tensor(const std::string& name) const;

  // A number from 1 under `from`; sets it as `to`.
  std::uint32_t count(const char* from, std::string_view to);
  std::uint32_t count_or(const char* from, std::string_view to, std::uint32_t fallback);
  // 0 without the key or if it is null.
  std::uint32_t size(const char* from);
  bool flag_or(const char* from, bool fallback);
  double number_or(const char* from, double fallback);
  std::string text_or(const char* from, std::string_view fallback);
  // One text for every layer, or none without the key.
  std::vector<std::string> layer_texts(const char* from);
  // As above, numbers.
  std::vector<std::uint32_t> layer_numbers(const char* from);
  // Distance of the layers with full attention in "layer_types", or `fallback` without it. Refuses
  // a list in which they are not the last of each period.
  std::uint32_t full_attention_period(std::uint32_t fallback);
  // Refuses another value than `wanted`; without the key it is `fallback`.
  void require_flag(const char* from, bool wanted, bool fallback);

  // Old files have rope_theta and rope_scaling, newer ones rope_parameters, and some a mixture.
  std::string rope_type();
  double rope_number_or(const char* from, double fallback);
  double positive_in_rope(const char* from);
  // Divisors, one per rotated pair.
  std::vector<float> divisors_in_rope(const char* from);
  bool has_in_rope(const char* from);
  // Refuses another value than the one that all files have.
  void require_in_rope(const char* from, double wanted);
  void refuse_in_rope(const char* from);
  // Base of the layers with a window, if it is stored beside that of the others.
  double window_theta_or(double fallback);
  std::vector<std::int32_t> rope_sections();
  std::uint32_t rotated() const { return rotated_; }

  void set_count(std::string_view to, std::uint32_t value);
  void set_counts(std::string_view to, const std::vector<std::int32_t>& values);
  void set_flags(std::string_view to, const std::vector<bool>& values);
  void set_number(std::string_view to, double value);
  void set_text(std::string_view to, std::string_view value);
  // Stores a tensor of one row.
  void set_vector(std::string_view tensor, std::vector<float> values);

  void fail(Error error);
  void refuse(const char* from, std::string_view why);
  const std::optional<Error>& error() const { return error_; }

 private:
  const nlohmann::json& rope(const char* key) const;
  const nlohmann::json& scaling() const;
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }

  const nlohmann::json& config_;
  const SafetensorsModel* checkpoint_;
  std::string prefix_;
  HfValues& out_;
  std::uint32_t rotated_ = 0;
  std::optional<Error> error_;
};

}  // namespace edgedraft
