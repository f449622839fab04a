#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "client/devices/shared_drafters.h"
#include "client/engine/turn.h"
#include "client/generation/generation.h"
#include "shared/net/send_grid.h"

namespace edgedraft {

class EngineConversation;

// What an answer came to.
struct AnswerOutcome {
  AnswerEnd end = AnswerEnd::cancelled;
  std::vector<std::uint32_t> tokens;
  std::vector<Provenance> provenance;  // one per token
  GenerationStats stats;
  LinkStats link;      // since the answer before was over, or the link was opened; checks included
  RunKnowledge known;  // what was learned so far, former answers included
};

// Runs any number of conversations, each over a link of its own and with a drafter of its own on
// weights that they share. One thread drafts for all of them in turns: a draft, a token written
// offline, or what the link has told each, so that none waits for another's whole answer.
class Engine {
 public:
  // `drafters` outlives the engine; null: conversations are plain decoding. So does `writers`, who
  // write without the server; null: the drafters do. And `grid`, which says when conversations go
  // on whose links send; null: whenever they can.
  explicit Engine(SharedDrafters* drafters, SharedDrafters* writers = nullptr,
                  const SendGrid* grid = nullptr);
  // Requires  every conversation is closed
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  struct ConversationParts {
    // The way to the target; calls `wake`, from any thread, when it has something new to tell.
    std::function<Result<std::unique_ptr<TargetLink>>(std::function<void()> wake)> open_link;
    // What the drafter becomes; empty: it stays as it is.
    std::function<std::unique_ptr<Drafter>(std::unique_ptr<Drafter>)> decorate{};
    // Told on the engine's thread, as on_cycle and on_decision are.
    GenerationObserver& observer;
    std::function<bool(std::uint32_t)> is_end;
    std::function<void(const CycleRecord&)> on_cycle{};          // may be empty
    std::function<void(const std::string& what)> on_decision{};  // the same
    std::function<bool()> on_battery{};                          // the same
    // An answer or check is over, and its outcome there. It must not call the conversation.
    std::function<void()> on_over{};  // the same
    GenerationOptions options;
  };
  // A conversation without any token. What `parts` refers to outlives it.
  //
  // Errors    of open_link; io if there is no memory for its drafter
  Result<std::unique_ptr<EngineConversation>> open(ConversationParts parts);
  // The same without a wait for the engine's thread, which may be in another's draft: it is opened
  // by its first answer, whose outcome has the errors.
  std::unique_ptr<EngineConversation> open_later(ConversationParts parts);

 private:
  friend class EngineConversation;

  enum class Order : std::uint8_t { none, open, answer, check, close };

  // Nothing in it if there was nothing to check.
  using Outcome = Result<std::optional<AnswerOutcome>>;

  struct Slot {
    explicit Slot(ConversationParts p) : parts(std::move(p)) {}

    ConversationParts parts;
    std::unique_ptr<TargetLink> link;  // is made under the engine's mutex

    // For the engine's thread alone.
    std::unique_ptr<Drafter> drafter;
    std::optional<OfflineWriter> writer;
    std::optional<Generation> generation;
    LinkStats link_told;          // with the outcomes so far
    LinkStats link_before;        // the same when the answer was begun
    std::optional<Error> broken;  // nothing more can be done with it
    std::optional<Instant> now;   // that its turn goes by; nothing: the clock's

    // Guarded by the engine's mutex.
    Turn turn;
    Order order = Order::none;
    std::vector<std::uint32_t> prompt;  // to answer
    std::optional<AnswerTerms> terms;   // the same; nothing: those before
    Outcome outcome{std::nullopt};      // of the last order
  };

  void give(Slot& slot, Order order, std::vector<std::uint32_t> prompt = {},
            std::optional<AnswerTerms> terms = {});
  void wake(Slot& slot);
  void cancel(Slot& slot);
  bool wait_until(const Slot& slot, Instant deadline);

  // The rest runs on the engine's thread.
  void run();
  // The first in line that has something to do, moved to the end of the line; null if none has.
  Slot* next_due(Instant now);
  Instant next_turn(Instant now) const;
  std::optional<Instant> last_step(Instant now) const;
  void run_turn(Slot& slot, std::unique_lock<std::mutex>& lock);
  // Nothing while the order is not done.
  std::optional<Outcome> take_turn(Slot& slot, Order order, std::span<const std::uint32_t> prompt,
                                   const std::optional<AnswerTerms>& terms, bool cancelled);
  Result<void> open_now(Slot& slot);
  static AnswerOutcome outcome_of(Slot& slot, AnswerEnd end);

  SharedDrafters* drafters_;
  SharedDrafters* writers_;
  const SendGrid* grid_;
  SteppedTurns stepped_turns_;  // the engine's thread's
  std::mutex mutex_;
  std::condition_variable wake_;     // the engine's thread
  std::condition_variable changed_;  // who waits for an order to be done
  std::list<Slot*> slots_;
  bool stopping_ = false;
  std::thread thread_;
};

// One conversation of an engine.
//
// Threads   one calls; cancel() and over() may be called from any
class EngineConversation {
 public:
  // Cancels what is in flight. Waits for a draft that is being computed.
  ~EngineConversation();
  EngineConversation(const EngineConversation&) = delete;
  EngineConversation& operator=(const EngineConversation&) = delete;

  // Begins the answer to `prompt`, the whole conversation as tokens. Requires  over()
  // `terms` hold from now on; nothing: those of the answer before, or of the options.
  void answer(std::vector<std::uint32_t> prompt, std::optional<AnswerTerms> terms = {});
  // Has the last answer checked if it was written offline and the server is back; it may be
  // corrected and go on. Requires  over()
  void check();
  // Ends the answer where it is; nothing if it is over.
  void cancel();

  // Waits until nothing is in flight, or until `deadline`. Returns whether nothing is.
  bool wait_until(Instant deadline);
  bool over() { return wait_until(Instant::min()); }
  // The outcome of the last order; nothing if there was nothing to check. Requires  over()
  //
  // Errors    those of Generation::end(); io if the drafter's device failed
  Result<std::optional<AnswerOutcome>> outcome();
  // The link's counts over all answers. Requires  it is open
  LinkStats link_stats() const { return slot_.link->stats(); }
  // Begins to say goodbye, which takes a while where nobody is at the other end: to close several,
  // tell all of them first.
  void close_link();

 private:
  friend class Engine;
  EngineConversation(Engine& engine, Engine::ConversationParts parts)
      : engine_(engine), slot_(std::move(parts)) {}

  Engine& engine_;
  Engine::Slot slot_;
};

}  // namespace edgedraft
