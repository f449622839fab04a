#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "client/engine/engine.h"
#include "client/serve/json/api_error.h"
#include "client/serve/request/completion_request.h"
#include "client/serve/request/request_privacy.h"
#include "client/serve/text/tools.h"
#include "client/serve/text/visible_text.h"
#include "shared/base/random.h"
#include "shared/constraints/token_texts.h"
#include "shared/types/logprob.h"

namespace edgedraft::client {

// A call as reported to a client.
struct ToolCall {
  ChatCall call;
  bool is_restored = false;  // its arguments contain restored placeholders
};

// Log probabilities of one token of an answer.
struct ToldToken {
  std::vector<Logprob> told;    // its own, then the likeliest; never empty
  std::size_t text_offset = 0;  // characters of the answer before it
};

// A choice at its end.
struct FinishedChoice {
  std::string text;
  std::string thought{};          // before the text
  bool stopped = false;           // by a stop string
  std::vector<ToolCall> calls{};  // after the text
  GenerationOutcome outcome;
  std::vector<ToldToken> logprobs{};

  // OpenAI's name: "stop", "length" or "tool_calls".
  std::string finish_reason() const;
  // True if the device alone wrote any of it.
  bool is_offline() const;
};

// An answer in OpenAI's shapes: stream events, or one object. Extensions are in "x_edgedraft", and
// llama-server's times in "timings".
class CompletionFormat {
 public:
  using Json = nlohmann::ordered_json;
  struct Options {
    std::string model;                          // its name
    std::shared_ptr<const TokenTexts> texts{};  // for log probabilities; null: none are returned
    RequestPrivacy privacy{};
  };
  // `request` must outlive it. `salt` determines the id and the padding of events.
  CompletionFormat(const CompletionRequest& request, Options options, std::uint64_t salt);

  // Events, ready to send. A chat's choice begins with begin_event.
  std::string begin_event(std::uint32_t choice);
  std::string text_event(std::uint32_t choice, const VisibleText::Piece& piece, ClientState state,
                         std::span<const ToldToken> logprobs);
  std::string calls_event(std::uint32_t choice, const std::vector<ToolCall>& calls);
  std::string end_event(std::uint32_t choice, const FinishedChoice& finished);
  // Events after the last choice: usage, if requested, and the end.
  std::string last_events(const std::vector<FinishedChoice>& choices);
  static std::string error_event(const ApiError& error);

  // The whole answer as one object.
  std::string whole(const std::vector<FinishedChoice>& choices);
  // "x_edgedraft" of a finished answer.
  Json counters_of(const GenerationOutcome& outcome) const;

 private:
  Json frame(bool chunk, bool is_offline) const;
  Json chunk_of(std::uint32_t choice, const std::string* text, bool is_offline = false) const;
  Json logprobs_json(std::span<const ToldToken> tokens) const;
  Json calls_json(const std::vector<ToolCall>& calls, bool indexed);
  std::string event_of(Json chunk, std::size_t text_bytes);

  const CompletionRequest& request_;
  Options options_;
  Random padding_;
  std::string id_;
  std::int64_t created_;
};

}  // namespace edgedraft::client
