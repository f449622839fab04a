#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "client/privacy/privacy_guard.h"
#include "client/privacy/request_mask.h"
#include "client/serve/json/api_error.h"
#include "shared/base/clock.h"
#include "shared/model/tokenizer.h"

namespace edgedraft::client {

// Handling of a request's private text.
struct RequestPrivacy {
  // Placeholders in it; null if there are none.
  std::shared_ptr<const Placeholders> placeholders{};
  // It holds private text, and stays on the device with everything derived from it.
  bool is_local = false;
  // If is_local: the part before the private text may still be sent.
  bool sends_open = false;
  // Function arguments are returned with restored placeholders.
  bool restores_tool_arguments = false;

  bool found() const { return is_local || placeholders != nullptr; }
  // True if a reader that does not drain may end its answer. Otherwise the end would reveal the
  // length of restored values: the backlog depends on it, and the server sees when a request stops.
  bool slow_readers_stop() const { return placeholders == nullptr; }
};

// A request's body, ready to be answered.
struct PrivateRequest {
  std::string body;
  RequestPrivacy privacy{};
  // For a request that stays on the device: its body with placeholders, which gives the part before
  // its private text. Empty if there are too many placeholders.
  struct Masked {
    std::string body;
    std::shared_ptr<const Placeholders> placeholders;
  };
  std::optional<Masked> masked{};
};

// Start time of a request with private text, received at `asked` and processed by `now`. It is
// rounded up to 20 ms, because the processing time depends on the text found.
Instant begin_of_private(Instant asked, Instant now);

// Masks private text in every field of a request, or keeps the request on the device, and learns
// the private values. The request's `private` and `restore_tool_arguments` select what is done.
//
// Errors    of these fields; unmarked private text, if refused; too many values for the
//           placeholders; private text that cannot be masked, such as in a function's name
ApiResult<PrivateRequest> take_out_private(std::string_view body, PrivacyGuard& guard,
                                           const Tokenizer& tokenizer);

}  // namespace edgedraft::client
