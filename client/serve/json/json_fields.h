#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "client/serve/json/api_error.h"

namespace edgedraft::client {

// Reads fields of a client's JSON object. A missing or null field leaves the value unchanged. A
// field of another type or out of range is an error; the first error is kept.
class JsonFields {
 public:
  // `object` must outlive it. `path` prefixes field names in errors: "stream_options.".
  explicit JsonFields(const nlohmann::json& object, std::string path = {});

  // Returns the field; null if it is missing or null.
  const nlohmann::json* find(std::string_view name) const;
  void read(std::string_view name, bool& value);
  void read(std::string_view name, std::string& value);
  void read(std::string_view name, double& value, double min, double max);
  void read(std::string_view name, std::int64_t& value, std::int64_t min, std::int64_t max);
  // Reads one of the given words; empty if missing.
  std::optional<std::string> word(std::string_view name, std::initializer_list<const char*> words);

  // `what` names the valid values: "a number from 0 to 2".
  void refuse(std::string_view name, const std::string& what);
  // Refuses a valid field that this program does not support.
  void refuse_unsupported(std::string_view name, const std::string& what);
  void take(const std::optional<ApiError>& error);
  const std::optional<ApiError>& error() const { return error_; }
  std::string path_of(std::string_view name) const { return path_ + std::string(name); }

 private:
  const nlohmann::json& object_;
  std::string path_;
  std::optional<ApiError> error_;
};

// Reads a request's body into `object`. Returns the error, if any.
std::optional<ApiError> parse_object(std::string_view body, nlohmann::json& object);

// "a string", "an array", as errors name types.
std::string kind_of(const nlohmann::json& value);

}  // namespace edgedraft::client
