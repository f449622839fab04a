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

namespace edgedraft::client {

class EngineConversation;

// Outcome of an answer.
struct GenerationOutcome {
  GenerationEnd end = GenerationEnd::cancelled;
  std::vector<std::uint32_t> tokens;
  std::vector<Provenance> provenance;  // one per token
  GenerationStats stats;
  LinkStats link;      // since the previous answer ended, or the link opened; includes checks
  RunKnowledge known;  // learned so far, including earlier answers
};

// Runs any number of conversations, each with its own link and its own drafter on shared weights.
// One thread drafts for all of them in turns. A turn is a draft, a token written offline, or the
// events of a link, so no conversation waits for another's whole answer.
class Engine {
 public:
  // All three pointers must outlive the engine. Without `drafters`, conversations use plain
  // decoding. Without `writers`, the drafters write offline text. `grid` sets the times at which
  // conversations with sending links continue; null: at any time.
  explicit Engine(SharedDrafters* drafters, SharedDrafters* writers = nullptr,
                  const SendGrid* grid = nullptr);
  // Requires  every conversation is closed
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  struct ConversationParts {
    // Opens the link to the target. The link calls `wake`, from any thread, when it has an event.
    std::function<Result<std::unique_ptr<TargetLink>>(std::function<void()> wake)> open_link;
    // open() connects the link; otherwise the first answer that sends something does.
    bool connects_first = true;
    // Wraps the drafter; empty: unchanged.
    std::function<std::unique_ptr<Drafter>(std::unique_ptr<Drafter>)> decorate{};
    // Called on the engine's thread, as on_cycle and on_decision are.
    GenerationObserver& observer;
    std::function<bool(std::uint32_t)> is_end;
    std::function<void(const CycleRecord&)> on_cycle{};          // may be empty
    std::function<void(const std::string& what)> on_decision{};  // may be empty
    std::function<bool()> on_battery{};  // may be empty; empty: never on battery
    // Called when an outcome is ready. It must not call the conversation.
    std::function<void()> on_over{};  // may be empty
    GenerationOptions options;
  };
  // Opens a conversation without tokens. Objects that `parts` refers to must outlive it.
  //
  // Errors    of open_link; io if there is no memory for its drafter
  Result<std::unique_ptr<EngineConversation>> open(ConversationParts parts);
  // Like open(), but does not wait for the engine's thread, which may be drafting. The first answer
  // opens the conversation, and its outcome reports the errors.
  std::unique_ptr<EngineConversation> open_later(ConversationParts parts);

 private:
  friend class EngineConversation;

  enum class Order : std::uint8_t { none, open, answer, check, close };

  // Empty if there was nothing to check.
  using Outcome = Result<std::optional<GenerationOutcome>>;

  struct Slot {
    explicit Slot(ConversationParts p) : parts(std::move(p)) {}

    ConversationParts parts;
    std::unique_ptr<TargetLink> link;  // created under the engine's mutex

    // Only for the engine's thread.
    std::unique_ptr<Drafter> drafter;
    std::optional<OfflineWriter> writer;
    std::optional<Generation> generation;
    LinkStats link_told;          // total over the outcomes so far
    LinkStats link_before;        // total when the answer began
    std::optional<Error> broken;  // the conversation is unusable
    std::optional<Instant> now;   // frozen time of a stepped turn; empty: the clock's

    // Guarded by the engine's mutex.
    Turn turn;
    Order order = Order::none;
    std::vector<std::uint32_t> prompt;     // to answer
    std::optional<GenerationTerms> terms;  // terms of that answer; empty: the previous ones
    Outcome outcome{std::nullopt};         // result of the last order
  };

  void wake(Slot& slot);

  // Functions below run on the engine's thread.
  void run();
  // Returns the first slot in line that is due, and moves it to the end; null if none is.
  Slot* next_due(Instant now);
  Instant next_turn(Instant now) const;
  std::optional<Instant> last_step(Instant now) const;
  void run_turn(Slot& slot, std::unique_lock<std::mutex>& lock);
  // Empty while the order is not done.
  std::optional<Outcome> take_turn(Slot& slot, Order order, std::span<const std::uint32_t> prompt,
                                   const std::optional<GenerationTerms>& terms, bool cancelled);
  Result<void> open_now(Slot& slot);
  static GenerationOutcome outcome_of(Slot& slot, GenerationEnd end);

  SharedDrafters* drafters_;
  SharedDrafters* writers_;
  const SendGrid* grid_;
  SteppedTurns stepped_turns_;  // engine's thread only
  std::mutex mutex_;
  std::condition_variable wake_;     // for the engine's thread
  std::condition_variable changed_;  // for callers that wait for an order
  std::list<Slot*> slots_;
  bool stopping_ = false;
  std::thread thread_;
};

// One conversation of an engine.
//
// Threads   one; cancel() and over() from any
class EngineConversation {
 public:
  // Cancels work in flight. Waits for a draft that is being computed.
  ~EngineConversation();
  EngineConversation(const EngineConversation&) = delete;
  EngineConversation& operator=(const EngineConversation&) = delete;

  // Begins the answer to `prompt`, the whole conversation as tokens. `terms` hold from now on;
  // empty: those of the previous answer, or of the options. Requires  over()
  void answer(std::vector<std::uint32_t> prompt, std::optional<GenerationTerms> terms = {});
  // Has the server check the last answer if it was written offline and the server is back. The
  // check may correct and continue the answer. Requires  over()
  void check() { give(Engine::Order::check); }
  // Ends the answer at its current length; does nothing if it is over.
  void cancel();

  // Waits until nothing is in flight, or until `deadline`. Returns true if nothing is.
  bool wait_until(Instant deadline);
  bool over() { return wait_until(Instant::min()); }
  // Returns the outcome of the last order; empty if there was nothing to check. Requires  over()
  //
  // Errors    those of Generation::end(); io if the drafter's device failed
  Result<std::optional<GenerationOutcome>> outcome();
  // The link's counts over all answers. Requires  an open link
  LinkStats link_stats() const { return slot_.link->stats(); }
  // Starts closing the link, which takes a while if the server does not respond. To close several
  // conversations, call this on all of them first.
  void close_link();

 private:
  friend class Engine;
  EngineConversation(Engine& engine, Engine::ConversationParts parts)
      : engine_(engine), slot_(std::move(parts)) {}
  void give(Engine::Order order, std::vector<std::uint32_t> prompt = {},
            std::optional<GenerationTerms> terms = {});

  Engine& engine_;
  Engine::Slot slot_;
};

}  // namespace edgedraft::client
