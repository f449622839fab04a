#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "client/serve/api_error.h"

namespace edgedraft {

// Reads the fields of a JSON object that a client sent. A field that is missing or null leaves the
// value as it is; one of another kind, or out of its range, is the error, of which the first stays.
class JsonFields {
 public:
  // `object` outlives it. `path` stands before the fields' names: "stream_options.".
  explicit JsonFields(const nlohmann::json& object, std::string path = {});

  // The field itself; null where it is missing or null.
  const nlohmann::json* find(std::string_view name) const;
  void read(std::string_view name, bool& value);
  void read(std::string_view name, std::string& value);
  void read(std::string_view name, double& value, double min, double max);
  void read(std::string_view name, std::int64_t& value, std::int64_t min, std::int64_t max);
  // One of a few words; nothing where it is missing.
  std::optional<std::string> word(std::string_view name, std::initializer_list<const char*> words);

  // `what` says what the field takes: "a number from 0 to 2".
  void refuse(std::string_view name, const std::string& what);
  // A field that is right, and that this program does not know how to follow.
  void refuse_unsupported(std::string_view name, const std::string& what);
  void take(const std::optional<ApiError>& error);
  const std::optional<ApiError>& error() const { return error_; }
  std::string path_of(std::string_view name) const { return path_ + std::string(name); }

 private:
  const nlohmann::json& object_;
  std::string path_;
  std::optional<ApiError> error_;
};

// Reads a request's body into `object`; what is wrong with it, if anything is.
std::optional<ApiError> parse_object(std::string_view body, nlohmann::json& object);

// "a string", "an array", as an error names what it got.
std::string kind_of(const nlohmann::json& value);

}  // namespace edgedraft
