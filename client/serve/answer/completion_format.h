#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/serve/answer/answer_format.h"

namespace edgedraft::client {

// An answer in OpenAI's shapes: stream events, or one object. Extensions are in "x_edgedraft", and
// llama-server's times in "timings".
class CompletionFormat final : public AnswerFormat {
 public:
  // `request` must outlive it.
  CompletionFormat(const CompletionRequest& request, AnswerFacts facts, std::uint64_t salt);

  // A chat's choice begins with begin_event.
  std::string begin_event(std::uint32_t choice) override;
  std::string text_event(std::uint32_t choice, const VisibleText::Piece& piece, ClientState state,
                         std::span<const ToldToken> logprobs) override;
  std::string calls_event(std::uint32_t choice, const std::vector<ToolCall>& calls) override;
  std::string end_event(std::uint32_t choice, const FinishedChoice& finished) override;
  // Usage, if requested, and the end.
  std::string last_events(const std::vector<FinishedChoice>& choices) override;
  std::string error_event(const ApiError& error) override;
  std::string whole(const std::vector<FinishedChoice>& choices) override;

 private:
  Json frame(bool chunk, bool is_offline) const;
  Json chunk_of(std::uint32_t choice, const std::string* text, bool is_offline = false) const;
  Json logprobs_json(std::span<const ToldToken> tokens) const;
  Json calls_json(const std::vector<ToolCall>& calls, bool indexed);
  std::string event_of(Json chunk, std::size_t text_bytes);

  const CompletionRequest& request_;
  std::string id_;
};

}  // namespace edgedraft::client
