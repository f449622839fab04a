#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/privacy/restored_text.h"
#include "client/serve/answer/answer_stream.h"
#include "client/serve/answer/completion_format.h"
#include "client/serve/conversations.h"
#include "client/serve/request/completion_request.h"
#include "client/serve/request/request_privacy.h"
#include "client/serve/text/visible_text.h"
#include "shared/base/clock.h"
#include "shared/net/http/http_reply.h"
#include "shared/net/send_grid.h"

namespace edgedraft::client {

// An answer request in progress: its choices, each in a conversation of its own, and the output to
// the client.
//
// Threads   the io_context's
class Completion final : public std::enable_shared_from_this<Completion> {
 public:
  struct Parts {
    boost::asio::io_context& io;
    Conversations& conversations;
    const Tokenizer& tokenizer;
    std::string model;
    std::shared_ptr<ConstraintFilter> filter{};  // constraints; null: none
    std::shared_ptr<const TokenTexts> texts{};   // for log probabilities; null: none are returned
    Duration keep_after{};                       // outage after which offline text becomes final
    double handover_below = 0.0;                 // see GenerationTerms
    RequestPrivacy privacy{};                    // its private text
    Instant start_at{};                          // earliest start
    SendGrid* grid = nullptr;                    // held while private text is computed; null: none
    std::uint64_t salt = 0;
    FormatMaker make_format{};  // of its output; empty: OpenAI's
    std::shared_ptr<AnswerStream> stream;
    // Called with an answer that must stay on the device, at its end and by tell_local_texts(); may
    // be empty.
    std::function<void(const std::string& text)> on_local_text{};
    // Called for each complete answer of a stream; may be empty.
    std::function<void(const FinishedChoice& answer, const AnswerFormat::Json& counters)>
        on_answer{};
    std::function<void()> on_done;  // called once, at the end or stop(); must not destroy this
  };
  // `prompts` has one element; for text completions, as many as the request has.
  Completion(Parts parts, CompletionRequest request, std::vector<Prompt> prompts);
  ~Completion();

  // Begins its conversations at parts.start_at.
  void start();
  // Cancels the request.
  void stop();
  // Call if the client has left or stopped reading.
  void lose_reader(HttpGone how);
  // Calls on_local_text with the text so far, if it must stay on the device.
  void tell_local_texts() const;

 private:
  // One of the answers.
  class Choice final : public ConversationListener {
   public:
    Choice(Completion& completion, std::uint32_t index);

    void on_token(std::uint32_t token, Provenance provenance) override;
    void on_logprobs(std::uint32_t first, std::span<const Logprob> told,
                     std::uint32_t per_token) override;
    void on_confirmed(std::uint32_t first, std::uint32_t end) override;
    void on_kept(std::uint32_t count) override;
    void on_rewrite(std::uint32_t index) override;
    void on_state(ClientState state, const std::string& why) override;
    void on_over(Result<GenerationOutcome> outcome) override;

    std::optional<Conversations::Ticket> ticket;  // while it is being written
    std::optional<GenerationOutcome> outcome;
    VisibleText text;
    // Text as the client sees it; empty if there are no placeholders.
    std::optional<RestoredText> seen_text;
    std::optional<RestoredText> seen_thought;
    // Tokens and their texts, as far as returned to the client.
    std::vector<ToldToken> told_tokens;
    ClientState state = ClientState::online;

   private:
    void show();
    void show(VisibleText::Piece piece);
    void restore(VisibleText::Piece& piece);
    void show_rest();
    void tell_logprobs();

    Completion& completion_;
    std::uint32_t index_;
    bool stopping_ = false;
    std::vector<std::vector<Logprob>> logprobs_;  // one list per answer token
    std::uint32_t told_count_ = 0;                // tokens covered by `told_tokens`
    std::size_t told_characters_ = 0;
  };

  void attempt(void (Completion::*step)());
  GenerationTerms terms_of(std::uint32_t choice) const;
  Thoughts thoughts() const;
  void begin();
  void begin_stream();
  AnswerFormat& begun_format();
  void write(std::string events);
  void fail(const ApiError& error);
  void end_if_complete();
  void abandon_choices();
  void done();
  std::vector<FinishedChoice> finished() const;
  FinishedChoice finished(std::uint32_t choice) const;
  std::vector<ToolCall> calls_of(const Choice& choice) const;
  std::uint32_t answers_count() const;
  bool keeps_leading_space() const;
  std::string text_before(std::uint32_t prompt) const;
  std::string echo_of(std::uint32_t choice) const;
  std::string as_seen(const std::string& text, bool in_json = false) const;

  Parts parts_;
  CompletionRequest request_;
  std::vector<Prompt> prompts_;
  // Per prompt, the initial state that each choice copies. Empty without placeholders.
  std::vector<RestoredText> unsaid_;
  std::unique_ptr<AnswerFormat> format_;
  std::vector<std::unique_ptr<Choice>> choices_;
  boost::asio::steady_timer start_;
  boost::asio::steady_timer late_;  // begins a stream that has no output yet
  std::optional<SendGrid::Hold> hold_;
  bool begun_ = false;
  bool deaf_ = false;  // output is dropped; the answer continues unchanged
  bool done_ = false;
};

}  // namespace edgedraft::client
