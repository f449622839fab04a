#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client/generation/writing_side.h"
#include "client/serve/json/api_error.h"
#include "client/serve/text/call_form.h"
#include "client/serve/text/tools.h"
#include "shared/base/clock.h"
#include "shared/model/chat_template.h"
#include "shared/types/constraints.h"
#include "shared/types/sampling_params.h"

namespace edgedraft::client {

// Behaviour of an answer while the server is away.
enum class OfflinePolicy : std::uint8_t {
  wait,    // every token is the target's
  keep,    // the drafter's text is held back, then returned as final
  revise,  // the drafter's text is returned at once, and corrected once the server is back
};

inline constexpr std::uint32_t kChoicesMax = 16;

// Defaults for absent fields.
struct CompletionDefaults {
  std::uint32_t tokens_max = 0;
  SamplingParams sampling{};
  OfflinePolicy offline = OfflinePolicy::keep;
  WritingSide route = WritingSide::server;
  CallForm calls{};  // as the model writes them
};

enum class CompletionKind : std::uint8_t { chat, text };

// Prompt of a text completion.
struct TextPrompt {
  std::string text{};
  std::vector<std::uint32_t> tokens{};  // used as the prompt if not empty
};

// A request to /v1/chat/completions or /v1/completions.
struct CompletionRequest {
  CompletionKind kind = CompletionKind::chat;
  std::vector<ChatMessage> messages{};  // chat only
  std::string template_variables{};     // variables of its template: a JSON object; empty: none
  std::string begun{};                  // start of its answer, which is not repeated
  std::vector<TextPrompt> prompts{};    // text completion only
  std::string prediction{};             // text that the answer may repeat; empty: none
  std::uint32_t tokens_max = 0;
  SamplingParams sampling{};
  std::uint32_t choices = 1;  // answers per prompt
  Constraints constraints{};
  std::uint8_t logprobs = 0;  // per token: its own, then the likeliest
  OfflinePolicy offline = OfflinePolicy::keep;
  Duration wait_max = Duration::max();  // for the server, with OfflinePolicy::wait
  WritingSide route = WritingSide::server;
  Tools tools{};
  bool splits_thoughts = true;
  bool answers_json = false;  // set by a response_format
  // Keywords of its JSON schemas that the grammar does not enforce.
  std::set<std::string> unenforced{};
  bool echo = false;
  bool streams = false;
  bool includes_usage = false;
  bool obfuscates = false;

  // Choice 0 of a prompt uses the request's seed; the others use hashes of it and their number.
  std::uint64_t seed_of(std::uint32_t choice) const;
};

// "wait", "keep" or "revise".
OfflinePolicy offline_policy_of(std::string_view word);
// "server", "device" or "auto".
WritingSide route_of(std::string_view word);

// Reads a request's body and ignores unknown fields. `random_seed` is the default seed.
//
// Errors    naming the field and its valid values
ApiResult<CompletionRequest> parse_completion(std::string_view body, CompletionKind kind,
                                              const CompletionDefaults& defaults,
                                              std::uint64_t random_seed);

}  // namespace edgedraft::client
