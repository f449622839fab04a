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
#include "client/serve/answer/past_answer.h"
#include "shared/model/marked_text.h"

namespace edgedraft::client {

// A prompt, and its rendered chat if a later prompt may continue it.
struct Prompt {
  std::vector<std::uint32_t> tokens;
  std::optional<MarkedText> chat{};  // as rendered by the chat template
  bool is_private = false;
  std::uint32_t open_count = 0;  // if private: leading tokens that depend on nothing private
  std::vector<std::uint32_t> prediction{};  // text that the answer may repeat
};

// Receives an answer on the io_context's thread. An exception that it throws ends the answer and
// becomes its outcome.
class ConversationListener : public GenerationObserver {
 public:
  // Last event, except after its own exception. The conversation is already free for the next
  // prompt.
  virtual void on_over(Result<GenerationOutcome> outcome) = 0;
};

// The engine's conversations. Each prompt is assigned the one that shares most of its prefix; if
// all are busy, prompts wait in a queue.
//
// Threads   the io_context's
class Conversations {
 public:
  struct Options {
    Engine& engine;
    // Parts of a conversation, except observer and on_over.
    std::function<Engine::ConversationParts(GenerationObserver& observer)> parts;
    std::function<void(const GenerationOutcome& outcome)> on_outcome;  // called for each answer
    std::uint32_t count_max = 1;
    // Bounds idle conversations, each of which holds a connection and a server session.
    std::uint32_t idle_max = 8;
    std::uint32_t line_max = 0;  // bounds waiting prompts; further ones are refused
  };
  Conversations(boost::asio::io_context& io, Options options);
  // Cancels work in flight without calling listeners.
  ~Conversations();
  Conversations(const Conversations&) = delete;
  Conversations& operator=(const Conversations&) = delete;

  // The last answer of each open conversation.
  PastAnswers pasts() const;

  using Ticket = std::uint64_t;
  // Begins the answer, now or when a conversation is free. The listener is called until on_over()
  // or abandon().
  //
  // Errors    refused: the line is full
  Result<Ticket> begin(Prompt prompt, const GenerationTerms& terms, ConversationListener& listener);
  // Ends a running answer at its current length; on_over() follows.
  void stop(Ticket ticket);
  // Ends the answer, or removes its prompt from the line. The listener receives nothing more. Does
  // nothing if it is over.
  void abandon(Ticket ticket);

  std::uint32_t busy_count() const;
  std::uint32_t waiting_count() const { return static_cast<std::uint32_t>(line_.size()); }
  std::uint32_t open_count() const { return static_cast<std::uint32_t>(places_.size()); }

 private:
  class Place;
  struct Waiting {
    Ticket ticket;
    Prompt prompt;
    GenerationTerms terms;
    ConversationListener* listener;
  };

  void serve_line();
  void start(Waiting waiting);
  // Returns the conversation that fits best, judged by the open part of the prompt only.
  Place& take_place(const Prompt& prompt);
  Place& open_place();
  void close(Place& place);
  bool has_room() const;
  void close_surplus();
  void on_over(Place& place);
  Result<GenerationOutcome> take_outcome(Place& place);
  Place* find(Ticket ticket) const;

  boost::asio::io_context& io_;
  Options options_;
  std::list<std::shared_ptr<Place>> places_;  // the latest used is last
  std::list<Waiting> line_;
  Ticket last_ticket_ = 0;
  std::atomic<std::uint32_t> closing_count_ = 0;
  // Closing a conversation waits for its current draft, and until Close is sent to the server.
  boost::asio::thread_pool closing_{1};
};

}  // namespace edgedraft::client
