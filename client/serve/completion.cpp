#include "client/serve/completion.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

// Until then a failure is still told by a status of its own.
constexpr Duration kStreamBeginsAfter = std::chrono::seconds(1);

}  // namespace

Completion::Choice::Choice(Completion& completion, std::uint32_t index)
    : text({.tokenizer = completion.parts_.tokenizer,
            .leading_space = completion.request_.kind == CompletionKind::chat ? LeadingSpace::strip
                                                                              : LeadingSpace::keep,
            .stops = completion.request_.constraints.stops,
            .shows_drafts = completion.request_.offline == OfflinePolicy::revise,
            .thoughts = completion.thoughts()}),
      completion_(completion),
      index_(index) {}

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

// Those of what was given out since.
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
  if (text.stopped() && !std::exchange(stopping_, true))
    completion_.parts_.conversations.stop(*ticket);
  if (!completion_.request_.streams || may_be_calls()) return;
  for (const AnswerText::Piece& piece : text.take()) {
    const std::size_t told_before = told_tokens.size();
    if (completion_.parts_.texts) tell_logprobs();
    completion_.write(completion_.format_.text_event(index_, piece, state,
                                                     std::span(told_tokens).subspan(told_before)));
  }
}

// A text that begins like a call is told when it is whole.
bool Completion::Choice::may_be_calls() const {
  const bool could = completion_.request_.tools.use != ToolUse::none && !outcome;
  if (!could) return false;
  const std::string answer = text.text();
  return answer.empty() ? text.thought().empty() : answer.starts_with('{');
}

void Completion::Choice::on_over(Result<AnswerOutcome> over) {
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
    const FinishedChoice choice = completion_.finished(*this);
    if (choice.calls.empty()) {
      show();
    } else {
      completion_.write(completion_.format_.calls_event(index_, choice.calls));
    }
    completion_.write(completion_.format_.end_event(index_, choice));
  }
  completion_.end_if_complete();
}

Completion::Completion(Parts parts, CompletionRequest request, Prompt prompt)
    : parts_(std::move(parts)),
      request_(std::move(request)),
      prompt_(std::move(prompt)),
      format_({.kind = request_.kind,
               .model = parts_.model,
               .includes_usage = request_.includes_usage,
               .obfuscates = request_.obfuscates,
               .texts = parts_.texts},
              parts_.salt),
      late_(parts_.io) {}

Completion::~Completion() {
  abandon_choices();
}

void Completion::start() {
  for (std::uint32_t i = 0; i < request_.choices; ++i) {
    choices_.push_back(std::make_unique<Choice>(*this, i));
    const auto ticket = parts_.conversations.begin(prompt_, terms_of(i), *choices_.back());
    if (!ticket) return fail(api_error_of(ticket.error()));
    choices_.back()->ticket = *ticket;
  }
  if (!request_.streams) return;
  late_.expires_after(kStreamBeginsAfter);
  late_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto still = weak.lock();
    if (!error && still && !still->done_) still->begin_stream();
  });
}

AnswerTerms Completion::terms_of(std::uint32_t choice) const {
  AnswerTerms terms{.tokens_max = request_.tokens_max,
                    .sampling = request_.sampling,
                    .writes_offline = request_.offline != OfflinePolicy::wait};
  terms.sampling.seed = request_.seed_of(choice);
  terms.law = parts_.law;
  terms.logprobs = request_.logprobs;
  terms.route = request_.route;
  if (request_.offline == OfflinePolicy::keep) terms.keep_after = parts_.keep_after;
  if (request_.route == AnswerRoute::server) return terms;
  // What the device is to write by itself is shown as it comes.
  terms.writes_offline = true;
  terms.handover_below = parts_.handover_below;
  terms.keep_after = request_.offline == OfflinePolicy::revise ? Duration::max() : Duration::zero();
  return terms;
}

Thoughts Completion::thoughts() const {
  if (request_.kind != CompletionKind::chat || !request_.splits_thoughts) return Thoughts::none;
  constexpr std::string_view kBegin = "<think>";
  const std::string& prompt = prompt_.chat->text();
  const std::size_t end = prompt.find_last_not_of(" \n") + 1;
  const bool begun = std::string_view(prompt).substr(0, end).ends_with(kBegin) &&
                     !prompt_.chat->is_foreign(end - kBegin.size(), end);
  return begun ? Thoughts::begun : Thoughts::maybe;
}

void Completion::begin_stream() {
  if (std::exchange(begun_, true)) return;
  parts_.outlet->begin();
  std::string events;
  for (std::uint32_t i = 0; i < request_.choices; ++i) {
    if (request_.kind == CompletionKind::chat) events += format_.begin_event(i);
    if (request_.echo) {
      events += format_.text_event(i, {.text = request_.prompt}, ClientState::online, {});
    }
  }
  if (!events.empty()) parts_.outlet->write(std::move(events));
}

void Completion::write(std::string events) {
  if (done_) return;
  begin_stream();
  parts_.outlet->write(std::move(events));
  if (parts_.outlet->is_stuck()) stop();
}

void Completion::fail(const ApiError& error) {
  if (done_) return;
  if (begun_) {
    parts_.outlet->write(CompletionFormat::error_event(error));
    parts_.outlet->end();
  } else {
    parts_.outlet->answer(answer_of(error));
  }
  done();
}

void Completion::end_if_complete() {
  if (done_) return;
  for (const auto& choice : choices_) {
    if (!choice->outcome) return;
  }
  if (request_.streams) {
    begin_stream();
    parts_.outlet->write(format_.last_events(finished()));
    parts_.outlet->end();
  } else {
    parts_.outlet->answer({.content_type = "application/json", .body = format_.whole(finished())});
  }
  done();
}

std::vector<FinishedChoice> Completion::finished() const {
  std::vector<FinishedChoice> finished;
  for (const auto& choice : choices_) finished.push_back(this->finished(*choice));
  return finished;
}

FinishedChoice Completion::finished(const Choice& choice) const {
  FinishedChoice finished{.text = (request_.echo ? request_.prompt : "") + choice.text.text(),
                          .thought = choice.text.thought(),
                          .stopped = choice.text.stopped(),
                          .outcome = *choice.outcome,
                          .logprobs = choice.told_tokens};
  // One that was cut is text.
  const bool whole = choice.outcome->end == AnswerEnd::end_token;
  if (request_.tools.use != ToolUse::none && whole) {
    finished.calls = parse_calls(finished.text).value_or(std::vector<ToolCall>());
  }
  return finished;
}

void Completion::stop() {
  if (!done_) done();
}

void Completion::done() {
  done_ = true;
  abandon_choices();
  late_.cancel();
  parts_.on_done();
}

void Completion::abandon_choices() {
  for (const auto& choice : choices_) {
    if (choice->ticket) parts_.conversations.abandon(*std::exchange(choice->ticket, std::nullopt));
  }
}

}  // namespace edgedraft
