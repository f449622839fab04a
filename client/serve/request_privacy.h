#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "client/privacy/privacy_guard.h"
#include "client/privacy/request_mask.h"
#include "client/serve/api_error.h"
#include "shared/base/clock.h"
#include "shared/model/tokenizer.h"

namespace edgedraft {

// What became of a request's private text.
struct RequestPrivacy {
  // What stands in it for private text; null where none does.
  std::shared_ptr<const Placeholders> placeholders{};
  // It holds private text, and stays here with everything that is made of it.
  bool is_local = false;
  // But for what stands before it, which may be sent.
  bool sends_open = false;
  // Arguments of functions are to be told with what placeholders stand for.
  bool restores_tool_arguments = false;

  bool found() const { return is_local || placeholders != nullptr; }
  // Whether a reader that takes nothing may end its answer. How far it is behind depends on what
  // placeholders became, and where an answer that was asked for is stopped the server learns when.
  bool slow_readers_stop() const { return placeholders == nullptr; }
};

// A request's body as it may be answered.
struct PrivateRequest {
  std::string body;
  RequestPrivacy privacy{};
  // For one that stays here: its body with placeholders, and what they stand for, which tell what
  // stands before its private text. Nothing where they are too many.
  struct Masked {
    std::string body;
    std::shared_ptr<const Placeholders> placeholders;
  };
  std::optional<Masked> masked{};
};

// When a request with private text that was asked at `asked` is begun, if it was looked through by
// `now`: at steps of 20 ms, as how long that took tells of what was found.
Instant begin_of_private(Instant asked, Instant now);

// Takes private text out of every field of a request that goes up, or finds that it has to stay,
// and learns what is private from now on. `private` and `restore_tool_arguments` of the request say
// what is wanted.
//
// Errors    of these fields; private text that nobody marked, where that is refused; more of it
// than
//           there are placeholders for; in a place that cannot be masked, such as a function's name
ApiResult<PrivateRequest> take_out_private(std::string_view body, PrivacyGuard& guard,
                                           const Tokenizer& tokenizer);

}  // namespace edgedraft
