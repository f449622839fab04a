#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace edgedraft {

// JSON on one line. What is no UTF-8, as a file's name may be, is replaced: it must stop no report.
inline std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace edgedraft
