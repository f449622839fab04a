#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "client/engine/engine.h"
#include "client/serve/answer/answer_stream.h"
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

// Facts of an answer besides its text.
struct AnswerFacts {
  std::string model;                          // its name
  std::shared_ptr<const TokenTexts> texts{};  // for log probabilities; null: none are returned
  RequestPrivacy privacy{};
  std::size_t prompt_tokens = 0;  // of the first prompt
};

// "x_edgedraft" of a finished answer.
nlohmann::ordered_json counters_of(const GenerationOutcome& outcome, const RequestPrivacy& privacy);

// Shapes of an answer in one API: parts of a stream, ready to send, or one object.
class AnswerFormat {
 public:
  using Json = nlohmann::ordered_json;
  virtual ~AnswerFormat() = default;

  virtual StreamForm stream_form() const { return {}; }
  virtual ErrorShape error_shape() const { return ErrorShape::openai; }

  virtual std::string begin_event(std::uint32_t choice) = 0;
  virtual std::string text_event(std::uint32_t choice, const VisibleText::Piece& piece,
                                 ClientState state, std::span<const ToldToken> logprobs) = 0;
  virtual std::string calls_event(std::uint32_t choice, const std::vector<ToolCall>& calls) = 0;
  virtual std::string end_event(std::uint32_t choice, const FinishedChoice& finished) = 0;
  // Follows the last choice.
  virtual std::string last_events(const std::vector<FinishedChoice>& choices) = 0;
  // Ends a stream that has begun.
  virtual std::string error_event(const ApiError& error) = 0;
  // The whole answer as one object.
  virtual std::string whole(const std::vector<FinishedChoice>& choices) = 0;

 protected:
  // `salt` determines ids.
  AnswerFormat(AnswerFacts facts, std::uint64_t salt);

  const AnswerFacts& facts() const { return facts_; }
  std::int64_t created() const { return created_; }  // in seconds since 1970
  std::string random_characters(std::size_t count);
  std::string new_id(const char* prefix);

 private:
  AnswerFacts facts_;
  Random random_;
  std::int64_t created_;
};

// Makes the format of an answer; `request` must outlive it.
using FormatMaker = std::function<std::unique_ptr<AnswerFormat>(
    const CompletionRequest& request, AnswerFacts facts, std::uint64_t salt)>;

}  // namespace edgedraft::client
