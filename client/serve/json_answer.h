#pragma once

#include <nlohmann/json.hpp>

#include "shared/net/http/http_message.h"

namespace edgedraft {

// Bytes that are no UTF-8 are replaced.
inline HttpAnswer json_answer(const nlohmann::ordered_json& json) {
  return {.content_type = "application/json",
          .body = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)};
}

}  // namespace edgedraft
