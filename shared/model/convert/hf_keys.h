#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/model/gguf_writer.h"

namespace edgedraft {

// Translates keys of config.json to GGUF's of an architecture. After the first error it returns
// neutral values, so a family translates all it has and the caller checks once.
class HfKeys {
 public:
  HfKeys(const nlohmann::json& config, std::string_view architecture, GgufMetadata& out);

  // A number from 1 under `from`; sets it as `to`.
  std::uint32_t count(const char* from, std::string_view to);
  std::uint32_t count_or(const char* from, std::string_view to, std::uint32_t fallback);
  // 0 without the key or if it is null.
  std::uint32_t size(const char* from);
  bool flag_or(const char* from, bool fallback);
  double number_or(const char* from, double fallback);
  std::string text_or(const char* from, std::string_view fallback);

  // Old files have rope_theta and rope_scaling, newer ones rope_parameters, and some a mixture.
  std::string rope_type();
  double rope_number_or(const char* from, double fallback);
  double positive_in_rope(const char* from);
  void refuse_in_rope(const char* from);
  std::uint32_t rotated() const { return rotated_; }

  void set_count(std::string_view to, std::uint32_t value);
  void set_number(std::string_view to, double value);
  void set_text(std::string_view to, std::string_view value);

  void fail(Error error);
  const std::optional<Error>& error() const { return error_; }

 private:
  const nlohmann::json& scaling() const;
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }

  const nlohmann::json& config_;
  std::string prefix_;
  GgufMetadata& out_;
  std::uint32_t rotated_ = 0;
  std::optional<Error> error_;
};

}  // namespace edgedraft
