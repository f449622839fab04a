#pragma once

#include <string>

#include "shared/net/http/http_message.h"

namespace edgedraft::client {

// Sends an answer's events to the requesting client, or to the readers of a kept stream.
//
// Threads   the io_context's, as all of the local API except its guard
class Outlet {
 public:
  virtual ~Outlet() = default;
  // Sends an answer instead of events. Requires  nothing was sent
  virtual void answer(HttpAnswer answer) = 0;
  // Begins events, with `headers` added to the outlet's own. Requires  nothing was sent
  virtual void begin(const HttpHeaders& headers = {}) = 0;
  virtual void write(std::string events) = 0;
  virtual void end() = 0;
  // True if the reader is not draining and the backlog is over its limit.
  virtual bool is_stuck() const = 0;
};

}  // namespace edgedraft::client
