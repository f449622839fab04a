#include "client/serve/conversations.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstdlib>  // for __GLIBC__
#include <exception>
#include <span>
#include <utility>

#include "shared/base/check.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace edgedraft::client {
namespace {

// Returns freed memory to the system. glibc keeps freed blocks of up to 32 MiB for reuse after it
// has seen such sizes, but a device needs that memory elsewhere. Takes milliseconds.
void give_back_free_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

std::size_t common_count(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Error for an exception of this program's own code.
Error error_of(const std::exception& failure) {
  return {Errc::io, std::string("internal error: ") + failure.what()};
}

// Tokens that may affect visible behaviour: another private text must give the same result.
std::span<const std::uint32_t> open_tokens(const Prompt& prompt) {
  return std::span(prompt.tokens)
      .first(prompt.is_private ? prompt.open_count : prompt.tokens.size());
}

}  // namespace

// A conversation of the engine. Forwards the engine's events to the io_context's thread in order.
class Conversations::Place final : public GenerationObserver,
                                   public std::enable_shared_from_this<Place> {
 public:
  explicit Place(boost::asio::io_context& io) : io_(io) {}

  void on_token(std::uint32_t token, Provenance provenance) override {
    tell([=](ConversationListener& to) { to.on_token(token, provenance); });
  }
  void on_logprobs(std::uint32_t first, std::span<const Logprob> told,
                   std::uint32_t per_token) override {
    tell([=, told = std::vector<Logprob>(told.begin(), told.end())](ConversationListener& to) {
      to.on_logprobs(first, told, per_token);
    });
  }
  void on_confirmed(std::uint32_t first, std::uint32_t end) override {
    tell([=](ConversationListener& to) { to.on_confirmed(first, end); });
  }
  void on_kept(std::uint32_t count) override {
    tell([=](ConversationListener& to) { to.on_kept(count); });
  }
  void on_rewrite(std::uint32_t index) override {
    tell([=](ConversationListener& to) { to.on_rewrite(index); });
  }
  void on_state(ClientState state, const std::string& why) override {
    tell([=](ConversationListener& to) { to.on_state(state, why); });
  }

  // Only for the io_context's thread.
  std::unique_ptr<EngineConversation> conversation;
  Ticket ticket = 0;  // ticket of its answer; 0: idle
  ConversationListener* listener = nullptr;
  Prompt prompt;                      // prompt of its answer
  std::vector<std::uint32_t> tokens;  // held when idle, up to the first private one
  bool was_private = false;           // its last prompt was private
  std::shared_ptr<const PastAnswer> past;

 private:
  template <class Act>
  void tell(Act act) {
    boost::asio::post(io_, [place = weak_from_this(), act] {
      const auto still = place.lock();
      if (!still || still->listener == nullptr) return;
      try {
        act(*still->listener);
      } catch (const std::exception& failure) {
        still->fail(failure);
        throw;
      }
    });
  }

  // Ends the answer of a listener that threw.
  void fail(const std::exception& failure) {
    ConversationListener* const failed = std::exchange(listener, nullptr);
    if (failed == nullptr) return;
    conversation->cancel();
    failed->on_over(error_of(failure));
  }

  boost::asio::io_context& io_;
};

Conversations::Conversations(boost::asio::io_context& io, Options options)
    : io_(io), options_(std::move(options)) {}

Conversations::~Conversations() {
  for (const auto& place : places_) {
    place->listener = nullptr;
    if (place->conversation) place->conversation->close_link();
  }
  for (const auto& place : places_) place->conversation.reset();
  closing_.join();
}

PastAnswers Conversations::pasts() const {
  PastAnswers pasts;
  for (const auto& place : places_) {
    if (place->past) pasts.push_back(place->past);
  }
  return pasts;
}

Result<Conversations::Ticket> Conversations::begin(Prompt prompt, const GenerationTerms& terms,
                                                   ConversationListener& listener) {
  if (line_.size() >= options_.line_max && busy_count() >= options_.count_max) {
    return Error{Errc::refused,
                 "all " + std::to_string(options_.count_max) + " conversations are busy and " +
                     std::to_string(options_.line_max) + " prompts are waiting: try again later"};
  }
  line_.push_back({.ticket = ++last_ticket_,
                   .prompt = std::move(prompt),
                   .terms = terms,
                   .listener = &listener});
  boost::asio::post(io_, [this] { serve_line(); });
  return last_ticket_;
}

void Conversations::stop(Ticket ticket) {
  if (Place* const place = find(ticket)) place->conversation->cancel();
}

void Conversations::abandon(Ticket ticket) {
  if (Place* const place = find(ticket)) {
    place->listener = nullptr;
    place->conversation->cancel();
    return;
  }
  std::erase_if(line_, [ticket](const Waiting& waiting) { return waiting.ticket == ticket; });
}

std::uint32_t Conversations::busy_count() const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(places_, [](const auto& place) { return place->ticket != 0; }));
}

Conversations::Place* Conversations::find(Ticket ticket) const {
  const auto found = std::ranges::find_if(
      places_, [ticket](const auto& place) { return place->ticket == ticket; });
  return found == places_.end() ? nullptr : found->get();
}

void Conversations::serve_line() {
  while (!line_.empty() && (has_room() || busy_count() < open_count())) {
    Waiting next = std::move(line_.front());
    line_.pop_front();
    start(std::move(next));
  }
}

void Conversations::start(Waiting waiting) {
  Place* taken = nullptr;
  try {
    taken = &take_place(waiting.prompt);
    taken->ticket = waiting.ticket;
    taken->listener = waiting.listener;
    taken->prompt = std::move(waiting.prompt);
    taken->conversation->answer(taken->prompt.tokens, waiting.terms);
  } catch (const std::exception& failure) {
    if (taken != nullptr) close(*taken);
    waiting.listener->on_over(error_of(failure));
  }
}

Conversations::Place& Conversations::take_place(const Prompt& asked) {
  const auto prompt = open_tokens(asked);
  const auto idle = [](const auto& place) { return place->ticket == 0; };
  auto best = places_.end();
  std::size_t most = 0;
  for (auto it = places_.begin(); it != places_.end(); ++it) {
    if (!idle(*it)) continue;
    const std::size_t common = common_count((*it)->tokens, prompt);
    // On a tie, the latest used wins.
    const bool knows_some = common > 0 || (asked.is_private && (*it)->was_private);
    if (knows_some && common >= most) best = it, most = common;
  }
  // A prefix shared by many prompts does not justify replacing another conversation: the server's
  // prefix cache finds it anyway.
  const bool continues = best != places_.end() && (2 * most >= (*best)->tokens.size() ||
                                                   (most == prompt.size() && !asked.is_private));
  if (!continues) {
    if (has_room()) return open_place();
    best = std::ranges::find_if(places_, idle);  // least recently used
  }
  EDGEDRAFT_CHECK(best != places_.end());
  places_.splice(places_.end(), places_, best);
  return *places_.back();
}

Conversations::Place& Conversations::open_place() {
  const auto place = std::make_shared<Place>(io_);
  Engine::ConversationParts parts = options_.parts(*place);
  parts.on_over = [this, weak = std::weak_ptr(place)] {
    boost::asio::post(io_, [this, weak] {
      if (const auto still = weak.lock(); still && still->conversation) on_over(*still);
    });
  };
  // Does not block other answers on this one's link and drafter.
  place->conversation = options_.engine.open_later(std::move(parts));
  places_.push_back(place);
  return *place;
}

void Conversations::close(Place& place) {
  ++closing_count_;
  boost::asio::post(closing_, [this, closed = place.shared_from_this()]() mutable {
    closed->conversation.reset();
    closed.reset();
    if (--closing_count_ == 0) give_back_free_memory();
    boost::asio::post(io_, [this] { serve_line(); });
  });
  place.listener = nullptr;
  std::erase_if(places_, [&](const auto& other) { return other.get() == &place; });
}

// Conversations being closed still hold their memory.
bool Conversations::has_room() const {
  return open_count() + closing_count_ < options_.count_max;
}

void Conversations::close_surplus() {
  while (open_count() - busy_count() > options_.idle_max) {
    // Least recently used.
    close(**std::ranges::find_if(places_, [](const auto& place) { return place->ticket == 0; }));
  }
}

void Conversations::on_over(Place& place) {
  ConversationListener* const listener = std::exchange(place.listener, nullptr);
  try {
    auto outcome = take_outcome(place);
    serve_line();
    // The end of a private answer must not be visible.
    if (outcome && !place.was_private) close_surplus();
    if (listener != nullptr) listener->on_over(std::move(outcome));
  } catch (const std::exception& failure) {
    // Neither this listener nor waiting prompts may wait forever.
    boost::asio::post(io_, [this] { serve_line(); });
    if (listener != nullptr) listener->on_over(error_of(failure));
    throw;
  }
}

Result<GenerationOutcome> Conversations::take_outcome(Place& place) {
  auto outcome = place.conversation->outcome();
  place.ticket = 0;
  if (!outcome || !*outcome) {
    // Its content is unknown now; the next prompt gets another conversation.
    const Error error = outcome ? Error{Errc::cancelled, "cancelled"} : outcome.error();
    close(place);
    return error;
  }
  options_.on_outcome(**outcome);
  const auto open = open_tokens(place.prompt);
  place.tokens.assign(open.begin(), open.end());
  place.was_private = place.prompt.is_private;
  if (!place.was_private) {
    place.tokens.insert(place.tokens.end(), (*outcome)->tokens.begin(), (*outcome)->tokens.end());
  }
  place.past.reset();
  if (place.prompt.chat) {
    place.past = std::make_shared<const PastAnswer>(
        PastAnswer{.prompt = *std::move(place.prompt.chat),
                   .prompt_tokens = std::move(place.prompt.tokens),
                   .answer_tokens = (*outcome)->tokens});
  }
  place.prompt = {};
  return **std::move(outcome);
}

}  // namespace edgedraft::client
