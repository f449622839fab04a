#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/control/run_control.h"
#include "client/generation/answer_route.h"
#include "client/generation/cycle_record.h"
#include "client/generation/observer.h"
#include "client/generation/offline_writer.h"
#include "shared/base/clock.h"
#include "shared/base/sampling_params.h"
#include "shared/constraints/answer_law.h"
#include "shared/drafting/drafter.h"
#include "shared/protocol/message.h"
#include "shared/protocol/target_link.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

using wire::Hold;

// Environment of a generation.
struct GenerationParts {
  TargetLink& link;
  Drafter* drafter;                 // may be null for plain decoding
  OfflineWriter* writer = nullptr;  // who writes without the server; null: the drafter
  GenerationObserver& observer;
  std::function<bool(std::uint32_t)> is_end;
  std::function<Instant()> now;
  std::function<void(const CycleRecord&)> on_cycle{};          // may be empty
  std::function<void(const std::string& what)> on_decision{};  // of the controls; the same
  std::function<bool()> on_battery{};                          // the same: it is not
  // Turns go by steps, in each of which `now` stands still (SendGrid); may be empty: they do not.
  std::function<bool()> goes_by_steps{};

  // Whether what is computed in this turn can be timed. By steps it cannot, and must not be: how
  // long it takes depends on work that nobody is to learn of.
  bool is_timed() const { return !goes_by_steps || !goes_by_steps(); }
};

struct GenerationOptions {
  std::optional<TreeShape> tree;  // nothing: plain decoding
  std::uint32_t tokens_max;
  std::uint32_t context_count;  // tokens that the drafter can hold; 0: any number
  SamplingParams sampling;
  Duration deadline;  // silence of the server after which the drafter writes on alone
  wire::ResyncPolicy resync;
  // How long an answer waits for the server: to check what ended offline, or to go on where nobody
  // here can write. Without a drafter and this, a lost link ends it at once.
  Duration resync_wait;
  // What the server's passes wait for; nothing: RunControl decides between none, economy and no
  // drafting at all.
  std::optional<Hold> hold = Hold::lockstep;
  RunKnowledge known{};  // of former answers from that server

  bool in_lockstep() const { return hold == Hold::lockstep; }
};

// What one answer of a conversation is to be like.
struct AnswerTerms {
  std::uint32_t tokens_max;
  SamplingParams sampling{};
  // Whether the drafter writes on alone while the server is away. Otherwise the answer waits for
  // it, until it is cancelled or wait_max is over.
  bool writes_offline = true;
  // If it does not: how long the answer waits for the server before it ends with the link's error.
  Duration wait_max = Duration::max();
  // What was written offline becomes part of the text, whatever the server would have said, once it
  // has been away for so long.
  Duration keep_after = Duration::max();
  AnswerRoute route = AnswerRoute::server;
  // The prompt holds private text: nothing of it, or written behind it, is ever sent, but for the
  // first `open_count` tokens, from which the drafter gets the target's activations.
  // Requires  route device
  bool is_private = false;
  std::uint32_t open_count = 0;
  // With AnswerRoute::automatic, the drafter is unsure where its last tokens were less likely to it
  // than this, in the geometric mean.
  double handover_below = 0.5;
  // What the answer keeps to; null: nothing. For the engine's thread from here on.
  std::shared_ptr<AnswerLaw> law{};
  // That the observer is told of each token of the target's: its own, and those of the likeliest.
  std::uint8_t logprobs = 0;
};

enum class AnswerEnd : std::uint8_t {
  end_token,   // the model ended it
  tokens_max,  // as long as was asked for
  context,     // the context is full
  stop,        // one of the texts is complete that end it
  cancelled,   // by the user
};

}  // namespace edgedraft
