#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/engine/engine.h"
#include "client/serve/past_answer.h"
#include "shared/model/marked_text.h"

namespace edgedraft {

// A prompt, and where it came from if a later one may begin with it.
struct Prompt {
  std::vector<std::uint32_t> tokens;
  std::optional<MarkedText> chat{};  // as the chat template rendered it
  bool is_private = false;
  std::uint32_t open_count = 0;  // of a private one: leading tokens that depend on nothing private
};

// Awaits an answer. Told on the io_context's thread. Where it throws its answer ends, and that
// is the outcome.
class AnswerListener : public GenerationObserver {
 public:
  // The last that is told, but for its own failure. The conversation is free for the next prompt by
  // then.
  virtual void on_over(Result<AnswerOutcome> outcome) = 0;
};

// The engine's conversations, of which each prompt gets the one that knows most of it. Where all
// are busy prompts wait in line.
//
// Threads   all calls on the io_context's thread
class Conversations {
 public:
  struct Options {
    Engine& engine;
    // What a conversation is made of, but for its observer and on_over.
    std::function<Engine::ConversationParts(GenerationObserver& observer)> parts;
    std::function<void(const AnswerOutcome& outcome)> on_outcome;  // each, for the record
    std::uint32_t count_max = 1;
    // Idle conversations that are kept: each is a connection, and a session of the server.
    std::uint32_t idle_max = 8;
    std::uint32_t line_max = 0;  // of prompts that wait
  };
  Conversations(boost::asio::io_context& io, Options options);
  // Cancels what is in flight; listeners are not told.
  ~Conversations();
  Conversations(const Conversations&) = delete;
  Conversations& operator=(const Conversations&) = delete;

  // The last answer of each that is open.
  PastAnswers pasts() const;

  using Ticket = std::uint64_t;
  // Begins the answer, now or when a conversation is free. The listener is told until on_over() or
  // cancel().
  //
  // Errors    refused: too many wait already
  Result<Ticket> begin(Prompt prompt, const AnswerTerms& terms, AnswerListener& listener);
  // Ends an answer that has begun where it is; on_over() is told when it has ended.
  void stop(Ticket ticket);
  // Ends it, or takes its prompt out of the line. The listener is told no more. Nothing if it is
  // over.
  void abandon(Ticket ticket);

  std::uint32_t busy_count() const;
  std::uint32_t waiting_count() const { return static_cast<std::uint32_t>(line_.size()); }
  std::uint32_t open_count() const { return static_cast<std::uint32_t>(places_.size()); }

 private:
  class Place;
  struct Waiting {
    Ticket ticket;
    Prompt prompt;
    AnswerTerms terms;
    AnswerListener* listener;
  };

  void serve_line();
  void start(Waiting waiting);
  // The one that suits what of the prompt others may know best.
  Place& take_place(const Prompt& prompt);
  Place& open_place();
  void close(Place& place);
  bool has_room() const;
  void close_surplus();
  void on_over(Place& place);
  Result<AnswerOutcome> take_outcome(Place& place);
  Place* find(Ticket ticket) const;

  boost::asio::io_context& io_;
  Options options_;
  std::list<std::shared_ptr<Place>> places_;  // used last comes last
  std::list<Waiting> line_;
  Ticket last_ticket_ = 0;
  std::atomic<std::uint32_t> closing_count_ = 0;
  // Closing one waits for a draft that is being made, and for its goodbye to the server.
  boost::asio::thread_pool closing_{1};
};

}  // namespace edgedraft
