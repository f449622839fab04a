#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client/generation/answer_route.h"
#include "client/serve/api_error.h"
#include "client/serve/call_form.h"
#include "client/serve/tools.h"
#include "shared/base/clock.h"
#include "shared/base/constraints.h"
#include "shared/base/sampling_params.h"
#include "shared/model/chat_template.h"

namespace edgedraft {

// What an answer does while the server is away.
enum class OfflinePolicy : std::uint8_t {
  wait,    // nothing: every token is the target's
  keep,    // text that the drafter writes is held back, then given out for good
  revise,  // it is given out at once, and corrected when the server is back
};

inline constexpr std::uint32_t kChoicesMax = 16;

// What a request gets where it says nothing.
struct CompletionDefaults {
  std::uint32_t tokens_max = 0;
  SamplingParams sampling{};
  OfflinePolicy offline = OfflinePolicy::keep;
  AnswerRoute route = AnswerRoute::server;
  CallForm calls{};  // as the model writes them
};

enum class CompletionKind : std::uint8_t { chat, text };

// What a text completion goes on with.
struct TextPrompt {
  std::string text{};
  std::vector<std::uint32_t> tokens{};  // if not empty, the prompt
};

// A request to /v1/chat/completions or /v1/completions.
struct CompletionRequest {
  CompletionKind kind = CompletionKind::chat;
  std::vector<ChatMessage> messages{};  // of a chat
  std::string template_variables{};     // of its template: a JSON object; empty: none
  std::string begun{};                  // how its answer begins, which is not said again
  std::vector<TextPrompt> prompts{};    // else
  std::uint32_t tokens_max = 0;
  SamplingParams sampling{};
  std::uint32_t choices = 1;  // of each prompt
  Constraints constraints{};
  std::uint8_t logprobs = 0;  // told of each token: its own, then the likeliest's
  OfflinePolicy offline = OfflinePolicy::keep;
  Duration wait_max = Duration::max();  // for the server, with OfflinePolicy::wait
  AnswerRoute route = AnswerRoute::server;
  Tools tools{};
  bool splits_thoughts = true;
  bool answers_json = false;  // a response_format says so
  // Words of its JSON schemas that the grammar does not enforce.
  std::set<std::string> unenforced{};
  bool echo = false;
  bool streams = false;
  bool includes_usage = false;
  bool obfuscates = false;

  // A prompt's choice 0 draws by the request's seed, the others by hashes of it and their number.
  std::uint64_t seed_of(std::uint32_t choice) const;
};

// "wait", "keep" or "revise".
OfflinePolicy offline_policy_of(std::string_view word);
// "server", "device" or "auto".
AnswerRoute route_of(std::string_view word);

// Reads a request's body. Fields that it does not know are ignored. Where the request names no
// seed `random_seed` is it.
//
// Errors    naming the field and what it takes
ApiResult<CompletionRequest> parse_completion(std::string_view body, CompletionKind kind,
                                              const CompletionDefaults& defaults,
                                              std::uint64_t random_seed);

}  // namespace edgedraft
