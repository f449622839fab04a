#include "client/serve/answer/completion.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "shared/model/utf8.h"

namespace edgedraft::client {
namespace {

// Until then, a failure can still be an HTTP status.
constexpr Duration kStreamBeginsAfter = std::chrono::seconds(1);

// For clients that do not read x_edgedraft.
const HttpHeaders kOfflineHeaders{{"X-Edgedraft-State", "offline"}};

ApiError lost(const char* why) {
  return {.message = why, .code = "stream_lost"};
}

}  // namespace

Completion::Choice::Choice(Completion& completion, std::uint32_t index)
    : text({.tokenizer = completion.parts_.tokenizer,
            .leading_space =
                completion.keeps_leading_space() ? LeadingSpace::keep : LeadingSpace::strip,
            .stops = completion.request_.constraints.stops,
            .shows_drafts = completion.request_.offline == OfflinePolicy::revise,
            .thoughts = completion.thoughts(),
            .calls = completion.request_.tools.use == ToolUse::none
                         ? nullptr
                         : &completion.request_.tools.form}),
      completion_(completion),
      index_(index) {
  const Placeholders* const placeholders = completion.parts_.privacy.placeholders.get();
  if (placeholders == nullptr) return;
  seen_text.emplace(completion.unsaid_[index / completion.request_.choices]);
  seen_thought.emplace(*placeholders);
}

void Completion::Choice::on_token(std::uint32_t token, Provenance provenance) {
  text.add(token, provenance);
  show();
}

void Completion::Choice::on_logprobs(std::uint32_t first, std::span<const Logprob> told,
                                     std::uint32_t per_token) {
  if (logprobs_.size() < first + told.size() / per_token) {
    logprobs_.resize(first + told.size() / per_token);
  }
  for (; !told.empty(); told = told.subspan(per_token)) {
    logprobs_[first++].assign(told.begin(), told.begin() + per_token);
  }
}

// Adds log probabilities for the text returned since.
void Completion::Choice::tell_logprobs() {
  const TokenTexts& texts = *completion_.parts_.texts;
  const auto end = std::min<std::size_t>(text.given_count(), logprobs_.size());
  for (; told_count_ < end; ++told_count_) {
    auto& own = logprobs_[told_count_];
    if (own.empty() || texts.text(own.front().token).empty()) continue;
    const std::string_view added = texts.text(own.front().token);
    told_tokens.push_back({.told = std::move(own), .text_offset = told_characters_});
    told_characters_ += utf8_count(added);
  }
}

void Completion::Choice::on_confirmed(std::uint32_t first, std::uint32_t end) {
  text.confirm(first, end);
  show();
}

void Completion::Choice::on_kept(std::uint32_t count) {
  text.keep(count);
  show();
}

void Completion::Choice::on_rewrite(std::uint32_t index) {
  text.rewrite(index);
  show();
}

void Completion::Choice::on_state(ClientState now, const std::string&) {
  state = now;
}

void Completion::Choice::show() {
  // Text of a device-only answer stops as well, and waits for its check.
  if (text.stopped_for_good() && !std::exchange(stopping_, true)) {
    completion_.parts_.conversations.stop(*ticket);
  }
  if (!completion_.request_.streams) return;
  for (VisibleText::Piece& piece : text.take()) {
    restore(piece);
    show(std::move(piece));
  }
}

void Completion::Choice::show(VisibleText::Piece piece) {
  const std::size_t told_before = told_tokens.size();
  if (completion_.parts_.texts) tell_logprobs();
  const auto told = std::span(told_tokens).subspan(told_before);
  if (piece.text.empty() && !piece.revise_from && told.empty()) return;
  completion_.write(completion_.begun_format().text_event(index_, piece, state, told));
}

void Completion::Choice::restore(VisibleText::Piece& piece) {
  auto& seen = piece.is_thought ? seen_thought : seen_text;
  if (!seen) return;
  if (piece.revise_from) seen->revise(*piece.revise_from);
  RestoredText::Piece restored = seen->push(piece.text);
  piece.text = std::move(restored.text);
  piece.revise_from = restored.revise_from;
}

// Shows held-back text that might have become a placeholder.
void Completion::Choice::show_rest() {
  for (const bool is_thought : {true, false}) {
    auto& seen = is_thought ? seen_thought : seen_text;
    if (!seen) continue;
    RestoredText::Piece rest = seen->finish();
    show({.text = std::move(rest.text), .is_thought = is_thought, .revise_from = rest.revise_from});
  }
}

void Completion::Choice::on_over(Result<GenerationOutcome> over) {
  ticket.reset();
  if (!over) return completion_.fail(api_error_of(over.error()));
  outcome = *std::move(over);
  text.finish();
  stopping_ = true;
  if (!completion_.request_.streams) {
    text.take();
    if (completion_.parts_.texts) tell_logprobs();
  }
  if (completion_.request_.streams) {
    const FinishedChoice choice = completion_.finished(index_);
    if (!choice.calls.empty()) text.drop_calls();
    show();
    show_rest();
    if (!choice.calls.empty()) {
      completion_.write(completion_.begun_format().calls_event(index_, choice.calls));
    }
    completion_.write(completion_.begun_format().end_event(index_, choice));
    if (completion_.parts_.on_answer) {
      completion_.parts_.on_answer(choice, counters_of(*outcome, completion_.parts_.privacy));
    }
  }
  completion_.end_if_complete();
}

Completion::Completion(Parts parts, CompletionRequest request, std::vector<Prompt> prompts)
    : parts_(std::move(parts)),
      request_(std::move(request)),
      prompts_(std::move(prompts)),
      start_(parts_.io),
      late_(parts_.io) {
  AnswerFacts facts{.model = parts_.model,
                    .texts = parts_.texts,
                    .privacy = parts_.privacy,
                    .prompt_tokens = prompts_.front().tokens.size()};
  format_ = parts_.make_format
                ? parts_.make_format(request_, std::move(facts), parts_.salt)
                : std::make_unique<CompletionFormat>(request_, std::move(facts), parts_.salt);
}

Completion::~Completion() {
  abandon_choices();
}

void Completion::start() {
  if (parts_.start_at <= Clock::now()) return attempt(&Completion::begin);
  start_.expires_at(parts_.start_at);
  start_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto still = weak.lock();
    if (!error && still && !still->done_) still->attempt(&Completion::begin);
  });
}

// An unexpected exception ends the answer; otherwise its client would wait forever.
void Completion::attempt(void (Completion::*step)()) {
  try {
    (this->*step)();
  } catch (const std::exception& failure) {
    fail({.status = 500, .message = failure.what()});
  }
}

void Completion::begin() {
  if (parts_.privacy.is_local && parts_.grid != nullptr) hold_.emplace(*parts_.grid);
  if (const Placeholders* const placeholders = parts_.privacy.placeholders.get()) {
    for (std::uint32_t i = 0; i < prompts_.size(); ++i) {
      unsaid_.emplace_back(*placeholders, request_.answers_json, text_before(i));
    }
  }
  for (std::uint32_t i = 0; i < answers_count(); ++i) {
    choices_.push_back(std::make_unique<Choice>(*this, i));
    const auto ticket =
        parts_.conversations.begin(prompts_[i / request_.choices], terms_of(i), *choices_.back());
    if (!ticket) return fail(api_error_of(ticket.error()));
    choices_.back()->ticket = *ticket;
  }
  if (!request_.streams) return;
  late_.expires_after(kStreamBeginsAfter);
  late_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto still = weak.lock();
    if (!error && still && !still->done_) still->attempt(&Completion::begin_stream);
  });
}

GenerationTerms Completion::terms_of(std::uint32_t choice) const {
  GenerationTerms terms{.tokens_max = request_.tokens_max,
                        .sampling = request_.sampling,
                        .writes_offline = request_.offline != OfflinePolicy::wait,
                        .wait_max = request_.wait_max};
  terms.sampling.seed = request_.seed_of(choice);
  terms.prediction = prompts_[choice / request_.choices].prediction;
  terms.filter = parts_.filter;
  terms.logprobs = request_.logprobs;
  terms.route = request_.route;
  terms.is_private = parts_.privacy.is_local;
  if (parts_.privacy.sends_open) terms.open_count = prompts_[choice / request_.choices].open_count;
  if (request_.offline == OfflinePolicy::keep) terms.keep_after = parts_.keep_after;
  if (request_.route == WritingSide::server) return terms;
  // Text that the device writes alone is shown as it arrives.
  terms.writes_offline = true;
  terms.handover_below = parts_.handover_below;
  terms.keep_after = request_.offline == OfflinePolicy::revise ? Duration::max() : Duration::zero();
  return terms;
}

Thoughts Completion::thoughts() const {
  if (request_.kind != CompletionKind::chat || !request_.splits_thoughts) return Thoughts::none;
  // An answer constrained from its first token has no thought.
  const bool is_bound =
      !request_.constraints.grammar.empty() && request_.tools.use != ToolUse::free;
  if (is_bound) return Thoughts::none;
  constexpr std::string_view kBegin = "<think>";
  const MarkedText& chat = *prompts_.front().chat;
  const std::string& prompt = chat.text();
  const std::size_t end = prompt.find_last_not_of(" \n") + 1;
  const bool begun = std::string_view(prompt).substr(0, end).ends_with(kBegin) &&
                     !chat.is_foreign(end - kBegin.size(), end);
  return begun ? Thoughts::begun : Thoughts::maybe;
}

void Completion::begin_stream() {
  if (begun_) return;
  const bool is_offline = std::ranges::any_of(
      choices_, [](const auto& choice) { return choice->state == ClientState::offline; });
  parts_.stream->begin(is_offline ? kOfflineHeaders : HttpHeaders{}, format_->stream_form());
  begun_ = true;
  std::string events;
  for (std::uint32_t i = 0; i < answers_count(); ++i) {
    if (request_.kind == CompletionKind::chat) events += format_->begin_event(i);
    if (request_.echo) {
      events += format_->text_event(i, {.text = echo_of(i)}, ClientState::online, {});
    }
  }
  if (!events.empty()) parts_.stream->write(std::move(events));
}

// The format, whose events are made in the order of the stream.
AnswerFormat& Completion::begun_format() {
  if (!done_ && !deaf_) begin_stream();
  return *format_;
}

void Completion::write(std::string events) {
  if (done_ || deaf_) return;
  parts_.stream->write(std::move(events));
  if (parts_.stream->is_stuck()) lose_reader(HttpGone::stalled);
}

void Completion::fail(const ApiError& error) {
  if (done_) return;
  // First, so that the connection ends even if the error cannot be sent.
  done();
  if (begun_) {
    parts_.stream->write(format_->error_event(error));
    parts_.stream->end();
  } else {
    parts_.stream->answer(answer_of(error, format_->error_shape()));
  }
}

void Completion::end_if_complete() {
  if (done_) return;
  for (const auto& choice : choices_) {
    if (!choice->outcome) return;
  }
  if (request_.streams) {
    begin_stream();
    parts_.stream->write(deaf_ ? format_->error_event(lost(
                                     "the reader was too slow: the answer continued without it"))
                               : format_->last_events(finished()));
    parts_.stream->end();
  } else {
    const std::vector<FinishedChoice> choices = finished();
    HttpAnswer answer{.content_type = "application/json", .body = format_->whole(choices)};
    if (std::ranges::any_of(choices, &FinishedChoice::is_offline)) answer.add(kOfflineHeaders);
    parts_.stream->answer(std::move(answer));
  }
  done();
}

std::vector<FinishedChoice> Completion::finished() const {
  std::vector<FinishedChoice> finished;
  for (std::uint32_t i = 0; i < choices_.size(); ++i) finished.push_back(this->finished(i));
  return finished;
}

FinishedChoice Completion::finished(std::uint32_t index) const {
  const Choice& choice = *choices_[index];
  FinishedChoice finished{.text = choice.text.text(),
                          .thought = as_seen(choice.text.thought()),
                          .stopped = choice.text.stopped(),
                          .outcome = *choice.outcome,
                          .logprobs = choice.told_tokens};
  finished.calls = calls_of(choice);
  if (!finished.calls.empty()) finished.text.resize(request_.tools.form.calls_at(finished.text));
  if (!unsaid_.empty()) {
    finished.text = restored(finished.text, unsaid_[index / request_.choices]);
  }
  if (request_.echo) finished.text.insert(0, echo_of(index));
  return finished;
}

std::vector<ToolCall> Completion::calls_of(const Choice& choice) const {
  std::vector<ToolCall> told;
  // An incomplete call is text.
  const bool whole = choice.outcome->end == GenerationEnd::end_token;
  if (request_.tools.use == ToolUse::none || !whole) return told;
  const CallForm& form = request_.tools.form;
  const std::string text = choice.text.text();
  auto calls = form.parse(std::string_view(text).substr(form.calls_at(text)));
  if (!calls) return told;
  for (ChatCall& call : *calls) {
    ToolCall& one = told.emplace_back(std::move(call));
    if (!parts_.privacy.restores_tool_arguments) continue;
    std::string seen = as_seen(one.call.arguments, /*in_json=*/true);
    one.is_restored = seen != one.call.arguments;
    one.call.arguments = std::move(seen);
  }
  return told;
}

std::uint32_t Completion::answers_count() const {
  return static_cast<std::uint32_t>(prompts_.size()) * request_.choices;
}

// Text that its answers continue. A reader that sees both together may see one link in them.
std::string Completion::text_before(std::uint32_t prompt) const {
  if (request_.kind == CompletionKind::chat) return request_.begun;
  const TextPrompt& text = request_.prompts[prompt];
  if (text.tokens.empty()) return text.text;
  return decode(parts_.tokenizer, text.tokens, LeadingSpace::strip);
}

// The space is kept after text, not after the template; a grammar begins after the space.
bool Completion::keeps_leading_space() const {
  return request_.constraints.grammar.empty() &&
         (request_.kind == CompletionKind::text || !request_.begun.empty());
}

// The choice's prompt, to be repeated.
std::string Completion::echo_of(std::uint32_t choice) const {
  return as_seen(text_before(choice / request_.choices));
}

// Restores placeholders.
std::string Completion::as_seen(const std::string& text, bool in_json) const {
  const Placeholders* const placeholders = parts_.privacy.placeholders.get();
  return placeholders == nullptr ? text : restored(text, *placeholders, in_json);
}

void Completion::stop() {
  if (!done_) done();
}

void Completion::lose_reader(HttpGone how) {
  if (how == HttpGone::stalled && !parts_.privacy.slow_readers_stop()) {
    deaf_ = true;
    return;
  }
  // A kept stream may have other readers.
  if (how == HttpGone::stalled && begun_ && !done_) {
    parts_.stream->write(
        format_->error_event(lost("the reader was too slow: the answer has ended")));
    parts_.stream->end();
  }
  stop();
}

void Completion::done() {
  done_ = true;
  // However it ended: returned text may be quoted in later requests.
  tell_local_texts();
  abandon_choices();
  hold_.reset();
  start_.cancel();
  late_.cancel();
  parts_.on_done();
}

void Completion::tell_local_texts() const {
  if (!parts_.privacy.is_local || !parts_.on_local_text) return;
  for (const auto& choice : choices_) {
    parts_.on_local_text(choice->text.thought() + '\n' + choice->text.text());
  }
}

void Completion::abandon_choices() {
  for (const auto& choice : choices_) {
    if (choice->ticket) parts_.conversations.abandon(*std::exchange(choice->ticket, std::nullopt));
  }
}

}  // namespace edgedraft::client
