#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace edgedraft::client {

// JSON on one line. Replaces invalid UTF-8, as in file names, so that it cannot prevent a report.
inline std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace edgedraft::client
