#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "client/generation/online/run_drafting.h"
#include "client/generation/states/agreement.h"

namespace edgedraft::client {

// Objects that an answer's states share.
struct AnswerParts : GenerationContext {
  explicit AnswerParts(const GenerationContext& context) : GenerationContext(context) {}

  CycleNotes notes{*this};
  TokenWriter text{*this, notes};
  Requests requests{*this};
  DeviceWriting device{*this};
  RunDrafting drafting{*this};
  Agreement agreement{*this, notes, text, requests, device};
};

// State of an answer: takes events and returns the next state. Errors end the answer.
class State : protected GenerationContext {
 public:
  // Requires  the parts outlive it
  explicit State(AnswerParts& parts) : GenerationContext(parts), answer_(parts) {}
  virtual ~State() = default;

  // Takes the link's event, or timed_out.
  virtual Result<Phase> take(const Result<ClientEvent>& told) = 0;

  struct Step {
    Phase next;
    Instant wait_end{};  // latest time to take an event; unused if the state changes
  };
  // Does one piece of work that needs no event.
  virtual Result<Step> work() = 0;

 protected:
  AnswerParts& answer_;
};

// Start of the answer to a prompt with private text. The server reads the part before that text;
// the drafter then writes alone, from the target's activations of that part. Appendix A.6 of
// *Mixture of Attentions* does the same after a lost connection.
class OpeningState final : public State {
 public:
  using State::State;

  // True if the server could send activations of the first tokens that the drafter lacks.
  bool is_wanted(std::uint32_t open_count) const;
  // `rest` is the remainder of the prompt, appended by append_rest().
  void begin(std::span<const std::uint32_t> rest) { rest_.assign(rest.begin(), rest.end()); }
  void append_rest();

  Result<Phase> take(const Result<ClientEvent>& told) override;
  Result<Step> work() override;

 private:
  // Continues with the activations received so far.
  Phase end();
  bool take_event(const ClientEvent& event);

  std::vector<std::uint32_t> rest_;
};

// Online or resyncing: the server owes an answer, or the connection is still being made.
class OnlineState final : public State {
 public:
  using State::State;
  Result<Phase> take(const Result<ClientEvent>& told) override;
  Result<Step> work() override;

 private:
  Result<Phase> take_one(const Result<ClientEvent>& told);
  void take_verdict(const VerdictReceived& event);
  void take_run(const VerdictReceived& event);
  void take_check(const wire::Verdict& verdict);
  Result<void> send_wanted();
};

// The device writes without the server, at the start or during an outage.
class OfflineState final : public State {
 public:
  using State::State;
  Result<Phase> take(const Result<ClientEvent>& told) override;
  Result<Step> work() override;

 private:
  Result<void> write();
};

// An answer that ended offline waits for its check. The wait has one deadline in all: a server that
// refuses each check does not restart it.
class AwaitingCheckState final : public State {
 public:
  using State::State;
  Result<Phase> take(const Result<ClientEvent>& told) override;
  Result<Step> work() override;
};

}  // namespace edgedraft::client
