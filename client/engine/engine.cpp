#include "client/engine/engine.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "shared/base/check.h"
#include "shared/drafting/predicted_drafter.h"

namespace edgedraft::client {
namespace {

// Longest single wait; a deadline far away would overflow.
constexpr Duration kLongestWait = std::chrono::hours(1);

}  // namespace

Engine::Engine(SharedDrafters* drafters, SharedDrafters* writers, const SendGrid* grid)
    : drafters_(drafters), writers_(writers), grid_(grid), thread_([this] { run(); }) {}

Engine::~Engine() {
  {
    const std::scoped_lock lock(mutex_);
    EDGEDRAFT_CHECK(slots_.empty());
    stopping_ = true;
    wake_.notify_one();
  }
  thread_.join();
}

std::unique_ptr<EngineConversation> Engine::open_later(ConversationParts parts) {
  std::unique_ptr<EngineConversation> conversation(new EngineConversation(*this, std::move(parts)));
  const std::scoped_lock lock(mutex_);
  slots_.push_back(&conversation->slot_);
  return conversation;
}

Result<std::unique_ptr<EngineConversation>> Engine::open(ConversationParts parts) {
  std::unique_ptr<EngineConversation> conversation = open_later(std::move(parts));
  conversation->give(Order::open);
  conversation->wait_until(Instant::max());
  if (const auto opened = conversation->outcome(); !opened) return opened.error();
  return conversation;
}

void Engine::wake(Slot& slot) {
  const std::scoped_lock lock(mutex_);
  slot.turn.woken_at = slot.turn.woken ? slot.turn.woken_at : Clock::now();
  slot.turn.woken = true;
  wake_.notify_one();
}

void Engine::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const Instant now = Clock::now();
    if (Slot* const slot = next_due(now)) {
      run_turn(*slot, lock);
    } else if (stopping_) {
      return;
    } else {
      wake_.wait_for(lock, std::min<Duration>(next_turn(now) - now, kLongestWait));
    }
  }
}

std::optional<Instant> Engine::last_step(Instant now) const {
  return grid_ == nullptr ? std::nullopt : grid_->last_turn(now);
}

Engine::Slot* Engine::next_due(Instant now) {
  const std::optional<Instant> step = last_step(now);
  const auto due = client::next_due(slots_, now, step, stepped_turns_);
  if (due == slots_.end()) return nullptr;
  slots_.splice(slots_.end(), slots_, due);
  Slot& slot = *slots_.back();
  slot.now = step && !slot.turn.is_private ? step : std::nullopt;
  return &slot;
}

Instant Engine::next_turn(Instant now) const {
  const std::optional<Instant> step = last_step(now);
  Instant next = now + kLongestWait;
  for (const Slot* slot : slots_) next = std::min(next, slot->turn.next(now, step));
  return next;
}

void Engine::run_turn(Slot& slot, std::unique_lock<std::mutex>& lock) {
  const Order order = std::exchange(slot.order, Order::none);
  const std::vector<std::uint32_t> prompt = std::exchange(slot.prompt, {});
  const std::optional<GenerationTerms> terms = std::exchange(slot.terms, std::nullopt);
  const bool cancelled = order == Order::none && std::exchange(slot.turn.cancelled, false);
  slot.turn.ordered = false;
  slot.turn.woken = false;
  const Instant begun = Clock::now();
  const std::optional<Instant> step = slot.now;
  // Later steps do not start before this time.
  if (!step) slot.turn.last = begun;

  lock.unlock();
  std::optional<Outcome> outcome;
  try {
    outcome = take_turn(slot, order, prompt, terms, cancelled);
  } catch (const Failure& failure) {
    slot.broken = failure.error();
  } catch (const std::exception& failure) {
    slot.broken = Error{Errc::io, failure.what()};
  }
  if (slot.broken) outcome = *slot.broken;
  lock.lock();
  if (step) stepped_turns_.took(*step, Clock::now() - begun);

  if (!outcome) {
    slot.turn.wait_end = slot.generation->wait_end();
    return;
  }
  if (order == Order::close) slots_.remove(&slot);
  slot.outcome = *std::move(outcome);
  slot.turn.busy = slot.order != Order::none;  // Order::none if it was closed meanwhile
  const bool tells = !slot.turn.busy && order != Order::open && order != Order::close;
  // The conversation may be destroyed from here on.
  const std::function<void()> on_over = tells ? slot.parts.on_over : nullptr;
  changed_.notify_all();
  if (!on_over) return;
  lock.unlock();
  on_over();
  lock.lock();
}

std::optional<Engine::Outcome> Engine::take_turn(Slot& slot, Order order,
                                                 std::span<const std::uint32_t> prompt,
                                                 const std::optional<GenerationTerms>& terms,
                                                 bool cancelled) {
  std::optional<Generation>& generation = slot.generation;
  if (order == Order::close) {
    if (generation && !slot.broken) generation->cancel();
    generation.reset();
    slot.writer.reset();
    slot.drafter.reset();
    return Outcome(std::nullopt);
  }
  if (slot.broken) return Outcome(*slot.broken);
  switch (order) {
    case Order::open:
      if (auto opened = open_now(slot); !opened) return Outcome(opened.error());
      if (slot.parts.connects_first) slot.link->start_connecting();
      return Outcome(std::nullopt);
    case Order::answer:
      if (!generation) {
        if (auto opened = open_now(slot); !opened) return Outcome(opened.error());
      }
      if (terms) generation->set(*terms);
      slot.link_before = slot.link_told;
      generation->begin(prompt);
      break;
    case Order::check:
      if (!generation->begin_check()) return Outcome(std::nullopt);
      break;
    default:
      if (cancelled) {
        generation->cancel();
      } else {
        auto told = slot.link->wait_event(Instant::min());
        const bool nothing = !told && told.error().code == Errc::timed_out;
        if (!nothing) {
          const std::scoped_lock lock(mutex_);
          slot.turn.woken = true;  // there may be more events
        } else if (slot.now) {
          slot.turn.last = *slot.now;
        }
        if (nothing && slot.now.value_or(Clock::now()) < generation->wait_end()) {
          return std::nullopt;
        }
        generation->go_on(std::move(told));
      }
  }
  if (!generation->over()) return std::nullopt;
  const auto end = generation->end();
  if (!end) return Outcome(end.error());
  return Outcome(outcome_of(slot, *end));
}

Result<void> Engine::open_now(Slot& slot) {
  const ConversationParts& parts = slot.parts;
  if (drafters_ != nullptr && parts.options.tree) {
    slot.drafter = std::make_unique<PredictedDrafter>(drafters_->make_drafter());
    if (parts.decorate) slot.drafter = parts.decorate(std::move(slot.drafter));
  }
  if (writers_ != nullptr) slot.writer.emplace([this] { return writers_->make_drafter(); });
  auto link = parts.open_link([this, &slot] { wake(slot); });
  if (!link) return link.error();
  {
    const std::scoped_lock lock(mutex_);
    slot.link = std::move(*link);
  }
  slot.generation.emplace(
      Generation::Parts{.link = *slot.link,
                        .drafter = slot.drafter.get(),
                        .writer = slot.writer ? &*slot.writer : nullptr,
                        .observer = parts.observer,
                        .is_end = parts.is_end,
                        .now = [&slot] { return slot.now.value_or(Clock::now()); },
                        .on_cycle = parts.on_cycle,
                        .on_decision = parts.on_decision,
                        .on_battery = parts.on_battery,
                        .goes_by_steps = [&slot] { return slot.now.has_value(); }},
      parts.options);
  return boost::system::in_place_value;
}

GenerationOutcome Engine::outcome_of(Slot& slot, GenerationEnd end) {
  const Generation& generation = *slot.generation;
  const TaintLedger& ledger = generation.ledger();
  const LinkStats link = slot.link->stats();
  slot.link_told = link;
  const auto tokens = ledger.tokens().subspan(generation.answer_first());
  GenerationOutcome outcome{.end = end,
                            .tokens = {tokens.begin(), tokens.end()},
                            .provenance = {},
                            .stats = generation.stats(),
                            .link = link.since(slot.link_before),
                            .known = generation.known()};
  for (std::uint32_t i = generation.answer_first(); i < ledger.count(); ++i) {
    outcome.provenance.push_back(ledger.provenance(i));
  }
  return outcome;
}

EngineConversation::~EngineConversation() {
  give(Engine::Order::close);
  wait_until(Instant::max());
  // Sending Close may take time and must not delay the engine's other conversations.
  slot_.link.reset();
}

void EngineConversation::give(Engine::Order order, std::vector<std::uint32_t> prompt,
                              std::optional<GenerationTerms> terms) {
  const std::scoped_lock lock(engine_.mutex_);
  EDGEDRAFT_CHECK(!slot_.turn.busy || order == Engine::Order::close);
  slot_.order = order;
  slot_.prompt = std::move(prompt);
  slot_.terms = std::move(terms);
  slot_.turn.is_private = slot_.terms && stays_here(*slot_.terms);
  slot_.turn.cancelled = false;
  slot_.turn.busy = slot_.turn.ordered = true;
  slot_.turn.asked = Clock::now();
  engine_.wake_.notify_one();
}

void EngineConversation::answer(std::vector<std::uint32_t> prompt,
                                std::optional<GenerationTerms> terms) {
  give(Engine::Order::answer, std::move(prompt), std::move(terms));
}

void EngineConversation::close_link() {
  TargetLink* link = nullptr;
  {
    const std::scoped_lock lock(engine_.mutex_);
    link = slot_.link.get();
  }
  // The link exists until the destructor. Called without the engine's mutex, because the link's
  // wake callback locks it.
  if (link != nullptr) link->close();
}

void EngineConversation::cancel() {
  const std::scoped_lock lock(engine_.mutex_);
  slot_.turn.cancelled = true;
  slot_.turn.asked = Clock::now();
  engine_.wake_.notify_one();
}

bool EngineConversation::wait_until(Instant deadline) {
  std::unique_lock lock(engine_.mutex_);
  while (slot_.turn.busy) {
    const Instant now = Clock::now();
    if (now >= deadline) return false;
    engine_.changed_.wait_for(lock, std::min<Duration>(deadline - now, kLongestWait));
  }
  return true;
}

Result<std::optional<GenerationOutcome>> EngineConversation::outcome() {
  const std::scoped_lock lock(engine_.mutex_);
  EDGEDRAFT_CHECK(!slot_.turn.busy);
  return slot_.outcome;
}

}  // namespace edgedraft::client
