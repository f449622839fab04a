#pragma once

#include <string>

#include "shared/net/http/http_message.h"

namespace edgedraft {

// Takes an answer's events to the client that asked, or to the readers of a kept stream.
//
// Threads   the io_context's, as everything of the local API but its guard
class Outlet {
 public:
  virtual ~Outlet() = default;
  // Instead of events. Requires  nothing was said
  virtual void answer(HttpAnswer answer) = 0;
  // Events follow, behind `headers` and the outlet's own. Requires  nothing was said
  virtual void begin(const HttpHeaders& headers = {}) = 0;
  virtual void write(std::string events) = 0;
  virtual void end() = 0;
  // Nobody takes what is given, so that it piles up.
  virtual bool is_stuck() const = 0;
};

}  // namespace edgedraft
