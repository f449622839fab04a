#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "client/conformance/check.h"
#include "client/conformance/subject.h"
#include "shared/protocol/outgoing.h"

namespace edgedraft::conformance {
namespace {

// Larger contexts take too long to fill.
constexpr std::uint32_t kFilledContextMax = 4096;

std::uint32_t size_of(const Tokens& tokens) {
  return static_cast<std::uint32_t>(tokens.size());
}

void repeats_greedy_answers(Subject& subject) {
  for (int i = 0; i < 2; ++i) {
    Session session = subject.session();
    subject.expect_service(session);
  }
}

void answers_without_credit(Subject& subject) {
  Session session = subject.session();
  session.prefill(subject.prompt());
  session.verdict();
  session.expect_silence("after the verdict on a request without credit");
  // Keeps the whole session and appends nothing.
  for (int i = 0; i < 2; ++i) {
    session.prefill(session.text(), {}, session.length());
    session.verdict();
  }
  subject.expect_reference(session);
}

void keeps_leading_tokens(Subject& subject) {
  Session session = subject.session();
  subject.expect_service(session);
  const std::uint32_t base = size_of(subject.prompt()) / 2;
  session.prefill(subject.prompt(), subject.whole_run(), base);
  session.run_to(size_of(subject.text()));
  subject.expect_reference(session);
}

void respects_credit(Subject& subject) {
  Session session = subject.session();
  const std::uint32_t given = size_of(subject.prompt());
  session.prefill(subject.prompt(), {.run = {.credit = given + 4}});
  session.run_to(given + 4);
  session.expect_silence("at the credit");
  session.hints({}, given + 2);
  session.expect_silence("after a smaller credit");
  session.hints({}, given + 8);
  session.run_to(given + 8);
  session.expect_silence("at the raised credit");
  subject.expect_reference(session);
}

void repeats_samples(Subject& subject) {
  Terms terms = subject.whole_run();
  terms.sampling = {.temperature = 1.0f, .seed = 7};
  std::optional<Tokens> first;
  const std::uint32_t given = size_of(subject.prompt());
  for (const bool drafts : {false, true}) {
    Session session = subject.session();
    Terms own = terms;
    if (drafts) own.run.credit = given + 1;
    session.prefill(subject.prompt(), own);
    session.verdict();
    if (drafts && session.ending() == wire::Ending::none) {
      Tokens draft(first->begin() + given + 1, first->end());
      if (draft.size() > 4) draft[4] = subject.other_than(given);
      session.hints({.nodes = chain(draft)}, terms.run.credit);
    }
    session.run_to(terms.run.credit);
    if (!first) first = session.text();
    require(session.text() == *first, [&] { return difference(session.text(), *first); });
  }
}

void seeds_differ(Subject& subject) {
  Terms terms = subject.whole_run();
  std::array<Tokens, 2> texts;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    Session session = subject.session();
    terms.sampling = {.temperature = 100.0f, .seed = seed};
    session.prefill(subject.prompt(), terms);
    session.run_to(terms.run.credit);
    texts[seed] = session.text();
  }
  require(texts[0] != texts[1], "two seeds give one answer at temperature 100");
}

void checks_offline_text(Subject& subject) {
  Session session = subject.session();
  const std::uint32_t given = size_of(subject.prompt());
  Tokens text = first_of(subject.text(), given + 4);
  Terms terms = subject.whole_run();
  terms.provisional_count = 4;
  session.prefill(text, terms);
  require(session.verdict().accepted_count == 4, "equal tokens are not accepted");
  session.run_to(terms.run.credit);
  subject.expect_reference(session);
  text[given + 2] = subject.other_than(given + 2);
  session.prefill(text, terms);
  require(session.verdict().accepted_count == 2, "not the tokens before the first difference");
  session.run_to(terms.run.credit);
  subject.expect_reference(session);
}

void keeps_offline_text(Subject& subject) {
  Session session = subject.session();
  Tokens text = subject.prompt();
  text.push_back(subject.other_than(text.size()));
  Terms terms{.provisional_count = 1, .policy = wire::ResyncPolicy::keep};
  session.prefill(text, terms);
  session.verdict();
  Tokens kept = session.text();
  session.prefill(text);
  session.verdict();
  require(session.text() == kept, "kept tokens are not context");
}

// Continues a session after its connection broke. A server may have forgotten it.
void resumes(Subject& subject) {
  const std::uint32_t half = size_of(subject.prompt()) + 6;
  Session first = subject.session();
  first.prefill(subject.prompt(), {.run = {.credit = half}});
  first.run_to(half);
  first.connection().cut();
  Session second = subject.session();
  Tokens offline = subject.answer(6, 2);
  offline.push_back(subject.other_than(half + 2));
  second.resume(first.welcome().session, first.text(), offline, subject.whole_run());
  if (const auto refused = second.answered()) {
    require(refused->code == Errc::session_unknown, [&] { return refused->message; });
    subject.expect_service(second);
    throw CheckSkipped("the server keeps no sessions");
  }
  require(second.length() == half + 3, "not the offline tokens before the first difference");
  second.run_to(size_of(subject.text()));
  subject.expect_reference(second);
}

void expect_unknown_session(Subject& subject, const wire::SessionId& id, const Tokens& verified) {
  Session session = subject.session();
  session.resume(id, verified);
  const wire::ErrorReport refused = session.refusal();
  require(refused.code == Errc::session_unknown, [&] { return "refused: " + refused.message; });
  subject.expect_service(session);
}

void forgets_unknown_session(Subject& subject) {
  wire::SessionId id{};
  id.fill(std::byte{0x5A});
  expect_unknown_session(subject, id, subject.prompt());
}

void compares_tokens_of_session(Subject& subject) {
  Session first = subject.session();
  first.prefill(subject.prompt());
  first.verdict();
  Tokens other = first.text();
  other[0] = subject.other_than(0);
  expect_unknown_session(subject, first.welcome().session, other);
}

void cancels(Subject& subject) {
  Session session = subject.session();
  session.prefill(subject.prompt(), subject.whole_run());
  session.cancel();
  session.cancel();
  subject.expect_service(session);
  session.prefill(subject.prompt(), subject.whole_run());
  session.verdict();
  session.cancel();
  subject.expect_service(session);
}

void next_request_ends_run(Subject& subject) {
  Session session = subject.session();
  session.prefill(subject.prompt(), subject.whole_run());
  session.verdict();
  subject.expect_service(session);
}

void refuses_tokens_beyond_vocabulary(Subject& subject) {
  const std::uint32_t vocabulary = subject.vocabulary_count();
  require(vocabulary < kTokenIdEnd, "every token id is accepted");
  Session session = subject.session();
  Tokens text = subject.prompt();
  for (const std::uint32_t token : {vocabulary, kTokenIdEnd - 1}) {
    text.back() = token;
    session.prefill(text, subject.whole_run());
    const wire::ErrorReport refused = session.refusal();
    require(refused.code == Errc::protocol, [&] { return "refused: " + refused.message; });
  }
  subject.expect_service(session);
}

void refuses_full_context(Subject& subject) {
  Session session = subject.session();
  const Tokens text(session.welcome().context_count, subject.prompt()[0]);
  session.prefill(text, {.run = {.credit = size_of(text)}});
  const wire::ErrorReport refused = session.refusal();
  require(refused.code == Errc::context_full, [&] { return "refused: " + refused.message; });
  subject.expect_service(session);
}

void ends_at_context(Subject& subject) {
  Session session = subject.session();
  const std::uint32_t context = session.welcome().context_count;
  if (context > kFilledContextMax) {
    throw CheckSkipped("filling " + std::to_string(context) + " tokens takes too long");
  }
  Tokens text(context - 4);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = subject.prompt()[i % 12];
  session.prefill(text, {.run = {.credit = kContextCountMax}});
  session.run_to(context);
  require(session.length() <= context, "the answer exceeds the context");
  require(session.ending() != wire::Ending::none, "the last verdict has no `ending`");
  subject.expect_service(session);
}

void serves_several(Subject& subject) {
  Session first = subject.session();
  Session second = subject.session();
  first.prefill(subject.prompt(), subject.whole_run());
  second.prefill(subject.prompt(), subject.whole_run());
  for (Session* session : {&second, &first}) {
    session->run_to(size_of(subject.text()));
    subject.expect_reference(*session);
  }
}

void answers_pings(Subject& subject) {
  Session session = subject.session();
  constexpr std::uint64_t kNonce = 0x0123456789ABCDEF;
  session.connection().send(wire::encode(wire::Ping{.nonce = kNonce}));
  const auto answer = session.connection().next(kPatience);
  const auto* const pong = answer ? std::get_if<wire::Pong>(&*answer) : nullptr;
  require(pong != nullptr && pong->nonce == kNonce, "no Pong with the nonce");
}

void drops_pads(Subject& subject) {
  Session session = subject.session();
  const Bytes padding(100, std::byte{0x7F});
  const auto kind = static_cast<std::uint16_t>(wire::Kind::pad);
  session.connection().send(frame_of(kind, padding));
  session.connection().send(frame_of(kind, {}));
  subject.expect_service(session);
}

void closes(Subject& subject) {
  Session session = subject.session();
  session.connection().send(wire::encode(wire::Close{"done"}));
  const auto message = session.connection().next(kPatience);
  require(!message || std::holds_alternative<wire::Close>(*message), "an answer to Close");
  require(message || session.connection().ended(), "the connection stays open");
}

constexpr std::array kChecks{
    Check{"greedy", "a prompt has one answer at temperature 0", repeats_greedy_answers},
    Check{"no-credit", "one verdict per request; requests continue the session",
          answers_without_credit},
    Check{"base-length", "a request may keep leading tokens", keeps_leading_tokens},
    Check{"credit", "a run waits at its credit, and a smaller one changes nothing",
          respects_credit},
    Check{"sampled", "draws depend on seed and position, not on drafts", repeats_samples},
    Check{"seeds", "draws depend on the seed", seeds_differ},
    Check{"check", "provisional tokens are accepted up to the first difference",
          checks_offline_text},
    Check{"keep", "kept provisional tokens are context", keeps_offline_text},
    Check{"resume", "a broken session continues with the same tokens", resumes},
    Check{"resume-unknown", "`session_unknown`, not fatal, for an unknown id",
          forgets_unknown_session},
    Check{"resume-other-tokens", "`session_unknown`, not fatal, for another hash",
          compares_tokens_of_session},
    Check{"cancel", "a cancelled round ends, and the next request is answered", cancels},
    Check{"next-request", "the next request ends a run", next_request_ends_run},
    Check{"vocabulary", "`protocol`, not fatal, for a token beyond the vocabulary",
          refuses_tokens_beyond_vocabulary},
    Check{"context-full", "`context_full`, not fatal, for a prompt as long as the context",
          refuses_full_context},
    Check{"context-end", "an answer ends with an `ending` at the end of the context",
          ends_at_context},
    Check{"connections", "answers of two connections do not mix", serves_several},
    Check{"ping", "a Pong repeats the nonce", answers_pings},
    Check{"pad", "pad frames are dropped", drops_pads},
    Check{"close", "a Close ends the connection", closes},
};

}  // namespace

std::span<const Check> request_checks() {
  return kChecks;
}

}  // namespace edgedraft::conformance
