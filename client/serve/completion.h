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
#include "client/serve/answer_text.h"
#include "client/serve/completion_format.h"
#include "client/serve/completion_request.h"
#include "client/serve/conversations.h"
#include "client/serve/logprobs_format.h"
#include "client/serve/outlet.h"
#include "client/serve/request_privacy.h"
#include "shared/base/clock.h"
#include "shared/net/http/http_reply.h"
#include "shared/net/send_grid.h"

namespace edgedraft {

// A request for an answer while it is worked on: its choices, each in a conversation of its own,
// and what the client is told of them.
//
// Threads   the io_context's
class Completion final : public std::enable_shared_from_this<Completion> {
 public:
  struct Parts {
    boost::asio::io_context& io;
    Conversations& conversations;
    const Tokenizer& tokenizer;
    std::string model;
    std::shared_ptr<AnswerLaw> law{};           // of the request's constraints; null: none
    std::shared_ptr<const TokenTexts> texts{};  // for log probabilities; null: none are told
    Duration keep_after{};        // that an outage lasts before its text is given out for good
    double handover_below = 0.0;  // see AnswerTerms
    RequestPrivacy privacy{};     // what of it was private
    Instant start_at{};           // not before
    SendGrid* grid = nullptr;     // held while what is private is computed; null: there is none
    std::uint64_t salt = 0;
    std::shared_ptr<Outlet> outlet;
    // Told of an answer that is to stay on the device, when it ends and by tell_local_texts(); may
    // be empty.
    std::function<void(const std::string& text)> on_local_text{};
    // Told of each answer of a stream that is whole; may be empty.
    std::function<void(const FinishedChoice& answer, const CompletionFormat::Json& counters)>
        on_answer{};
    std::function<void()> on_done;  // told once, when it is over or was stopped; not to destroy it
  };
  // One prompt, or of texts as many as the request has.
  Completion(Parts parts, CompletionRequest request, std::vector<Prompt> prompts);
  ~Completion();

  // Its conversations are not begun before parts.start_at.
  void start();
  // Nobody wants it any more.
  void stop();
  // Nobody takes it any more, or for now.
  void lose_reader(HttpGone how);
  // Tells on_local_text what was written so far, if it is to stay on the device.
  void tell_local_texts() const;

 private:
  // One of the answers.
  class Choice final : public AnswerListener {
   public:
    Choice(Completion& completion, std::uint32_t index);

    void on_token(std::uint32_t token, Provenance provenance) override;
    void on_logprobs(std::uint32_t first, std::span<const Logprob> told,
                     std::uint32_t per_token) override;
    void on_confirmed(std::uint32_t first, std::uint32_t end) override;
    void on_kept(std::uint32_t count) override;
    void on_rewrite(std::uint32_t index) override;
    void on_state(ClientState state, const std::string& why) override;
    void on_over(Result<AnswerOutcome> outcome) override;

    std::optional<Conversations::Ticket> ticket;  // while it is being written
    std::optional<AnswerOutcome> outcome;
    AnswerText text;
    // As the client sees it; nothing where no placeholder was given out.
    std::optional<RestoredText> seen_text;
    std::optional<RestoredText> seen_thought;
    // The tokens that have a text, up to those given out.
    std::vector<ToldToken> told_tokens;
    ClientState state = ClientState::online;

   private:
    void show();
    void show(AnswerText::Piece piece);
    void restore(AnswerText::Piece& piece);
    void show_rest();
    void tell_logprobs();

    Completion& completion_;
    std::uint32_t index_;
    bool stopping_ = false;
    std::vector<std::vector<Logprob>> logprobs_;  // of the answer's tokens
    std::uint32_t told_count_ = 0;                // that `told_tokens` is of
    std::size_t told_characters_ = 0;
  };

  void attempt(void (Completion::*step)());
  AnswerTerms terms_of(std::uint32_t choice) const;
  Thoughts thoughts() const;
  void begin();
  void begin_stream();
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
  // By prompt: an answer to it of which nothing is said yet, as the client is to see it. Empty
  // where no placeholder was given out.
  std::vector<RestoredText> unsaid_;
  CompletionFormat format_;
  std::vector<std::unique_ptr<Choice>> choices_;
  boost::asio::steady_timer start_;
  boost::asio::steady_timer late_;  // then a stream begins, whatever there is to say
  std::optional<SendGrid::Hold> hold_;
  bool begun_ = false;
  bool deaf_ = false;  // nobody takes what is said, and none must learn of it
  bool done_ = false;
};

}  // namespace edgedraft
