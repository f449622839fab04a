#pragma once

#include <nlohmann/json.hpp>

#include "client/json_line.h"
#include "shared/net/http/http_message.h"

namespace edgedraft::client {

inline HttpAnswer json_answer(const nlohmann::ordered_json& json) {
  return {.content_type = "application/json", .body = json_line(json)};
}

}  // namespace edgedraft::client
