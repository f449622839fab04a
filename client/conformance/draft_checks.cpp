#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/conformance/check.h"
#include "client/conformance/subject.h"
#include "shared/base/random.h"

namespace edgedraft::conformance {
namespace {

// A run that waits at its credit after the answer's first token, so that drafts precede the pass.
void begin_paused(Session& session, Subject& subject, wire::Hold hold = wire::Hold::none) {
  const auto given = static_cast<std::uint32_t>(subject.prompt().size());
  session.prefill(subject.prompt(), {.run = {.credit = given + 1, .hold = hold}});
  session.verdict();
}

void finish(Session& session, Subject& subject) {
  const Terms terms = subject.whole_run();
  session.hints({}, terms.run.credit);
  session.run_to(terms.run.credit);
  subject.expect_reference(session);
  require(session.length() == terms.run.credit, "the answer ends too soon");
}

// A run with these drafts gives the reference answer.
void expect_harmless(Subject& subject, const std::vector<Draft>& drafts) {
  Session session = subject.session();
  begin_paused(session, subject);
  for (const Draft& draft : drafts) session.hints(draft);
  finish(session, subject);
}

Tokens wrong_answer(Subject& subject, std::size_t first, std::size_t count) {
  Tokens tokens;
  for (std::size_t i = first; i < first + count; ++i) {
    tokens.push_back(subject.other_than(subject.prompt().size() + i));
  }
  return tokens;
}

// Right and wrong siblings at two levels, and a right token below a wrong one. The right path has
// two nodes.
std::vector<HintNode> siblings(Subject& subject) {
  const Tokens right = subject.answer(1, 2);
  const Tokens wrong = wrong_answer(subject, 1, 2);
  return {{.token = wrong[0]},
          {.token = right[0]},
          {.token = right[1], .distance = 1},
          {.token = wrong[1], .distance = 2},
          {.token = right[1], .distance = 4}};
}

void right_drafts(Subject& subject) {
  expect_harmless(subject, {{.nodes = chain(subject.answer(1, 8))}});
}

void wrong_drafts(Subject& subject) {
  expect_harmless(subject, {{.nodes = chain(wrong_answer(subject, 1, 8))}});
}

void half_right_drafts(Subject& subject) {
  Tokens draft = subject.answer(1, 8);
  draft[4] = subject.other_than(subject.prompt().size() + 5);
  expect_harmless(subject, {{.nodes = chain(draft)}});
}

void sibling_drafts(Subject& subject) {
  expect_harmless(subject, {{.nodes = siblings(subject)}});
}

void junk_drafts(Subject& subject) {
  Random random(1);
  std::vector<HintNode> nodes(512);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i] = {.token = static_cast<std::uint32_t>(random.below(subject.vocabulary_count())),
                .distance = static_cast<std::uint16_t>(random.below(i + 1)),
                .score = static_cast<std::uint8_t>(random.below(256))};
  }
  expect_harmless(subject, {{.nodes = nodes}});
}

void late_drafts(Subject& subject) {
  Session session = subject.session();
  begin_paused(session, subject);
  const Tokens behind = session.text();
  const std::uint32_t middle = session.length() + 7;
  session.hints({}, middle);
  session.run_to(middle);
  session.hints({.behind = behind, .nodes = chain(subject.answer(1, 3))});
  session.hints({.behind = behind, .nodes = chain(wrong_answer(subject, 1, 12)), .first = 10});
  session.hints({.behind = behind, .nodes = chain(subject.answer(1, 12)), .first = 30});
  finish(session, subject);
}

void early_drafts(Subject& subject) {
  Session session = subject.session();
  session.prefill(subject.prompt(), subject.whole_run());
  session.hints({.behind = subject.prompt(), .nodes = chain(subject.answer(0, 6))});
  session.hints(
      {.behind = subject.prompt(), .nodes = chain(wrong_answer(subject, 0, 6)), .first = 7});
  finish(session, subject);
}

void unknown_prefixes(Subject& subject) {
  Tokens other = first_of(subject.text(), subject.prompt().size() + 1);
  other[0] = subject.other_than(0);
  Tokens longer = first_of(subject.text(), subject.prompt().size() + 1);
  longer.insert(longer.end(), 5, subject.prompt()[0]);
  expect_harmless(subject, {{.behind = other, .nodes = chain(wrong_answer(subject, 1, 4))},
                            {.behind = longer, .nodes = chain(subject.answer(1, 4)), .first = 5}});
}

void unknown_ids(Subject& subject) {
  const std::vector<HintNode> right = chain(subject.answer(1, 4));
  expect_harmless(subject,
                  {{.nodes = {{.token = subject.other_than(0), .distance = 50}}, .first = 100},
                   {.nodes = right, .first = 1},
                   {.nodes = chain(wrong_answer(subject, 1, 4)), .first = 1}});
}

void drafts_beyond_vocabulary(Subject& subject) {
  const std::uint32_t beyond = kTokenIdEnd - 1;
  if (subject.vocabulary_count() > beyond) throw CheckSkipped("every token id is accepted");
  Tokens tokens = subject.answer(1, 4);
  tokens.insert(tokens.begin() + 2, beyond);
  expect_harmless(subject, {{.nodes = {{.token = subject.vocabulary_count()}}},
                            {.nodes = chain(tokens), .first = 2}});
}

// Beyond the rate a server drops the nodes, but applies the credit.
void drafts_beyond_rate(Subject& subject) {
  Session session = subject.session();
  begin_paused(session, subject);
  const std::vector<HintNode> nodes(1024, HintNode{.token = subject.other_than(0)});
  for (std::uint32_t i = 0; i < 12; ++i) {
    const bool is_last = i == 11;
    session.hints({.nodes = nodes, .first = 1 + 1024 * i},
                  is_last ? subject.whole_run().run.credit : 0);
  }
  session.run_to(subject.whole_run().run.credit);
  subject.expect_reference(session);
}

void drafts_of_ended_round(Subject& subject) {
  Session session = subject.session();
  begin_paused(session, subject);
  const Bytes ended =
      session.hints_frame({.nodes = chain(wrong_answer(subject, 1, 4))}, kContextCountMax);
  session.prefill(subject.prompt(), subject.whole_run());
  session.connection().send(ended);
  finish(session, subject);
}

// Short answers: a server may wait for hints before each pass.
void economy(Subject& subject) {
  const auto end = static_cast<std::uint32_t>(subject.prompt().size()) + 3;
  for (const auto& nodes : {std::vector<HintNode>(), siblings(subject)}) {
    Session session = subject.session();
    begin_paused(session, subject, wire::Hold::economy);
    session.hints({.nodes = nodes}, end, wire::Hold::economy);
    session.run_to(end);
    subject.expect_reference(session);
    require(session.length() == end, "the answer ends too soon");
  }
}

void lockstep_waits(Subject& subject) {
  Session session = subject.session();
  session.prefill(subject.prompt(), subject.whole_run(wire::Hold::lockstep));
  session.verdict();
  session.expect_silence("under lockstep before complete hints");
  session.complete({});
  require(session.verdict().tokens.empty(), "`tokens` without nodes");
  session.expect_silence("under lockstep, a second time for the same hints");
  subject.expect_reference(session);
}

void lockstep_takes_nodes(Subject& subject) {
  Session session = subject.session();
  if (session.welcome().nodes_max < 5) throw CheckSkipped("`nodes_max` is below 5");
  session.prefill(subject.prompt(), subject.whole_run(wire::Hold::lockstep));
  session.verdict();
  session.complete(siblings(subject));
  require(session.verdict().tokens.size() == 2, "the right path was not accepted");
  const std::size_t done = session.length() - subject.prompt().size();
  session.complete(chain(subject.answer(done, 4)));
  require(session.verdict().tokens.size() == 4, "a right chain was not accepted");
  const std::size_t next = session.length() - subject.prompt().size();
  session.complete(chain(wrong_answer(subject, next, 4)));
  require(session.verdict().tokens.empty(), "a wrong chain was accepted");
  while (session.length() < subject.text().size() && session.ending() == wire::Ending::none) {
    session.complete({});
    session.verdict();
  }
  subject.expect_reference(session);
}

constexpr std::array kChecks{
    Check{"drafts-right", "right drafts do not change the answer", right_drafts},
    Check{"drafts-wrong", "wrong drafts do not change the answer", wrong_drafts},
    Check{"drafts-half-right", "a draft that turns wrong does not change the answer",
          half_right_drafts},
    Check{"drafts-siblings", "a tree with siblings does not change the answer", sibling_drafts},
    Check{"drafts-junk", "512 random nodes do not change the answer", junk_drafts},
    Check{"drafts-late", "drafts for earlier positions do not change the answer", late_drafts},
    Check{"drafts-early", "drafts before the first verdict do not change the answer", early_drafts},
    Check{"drafts-unknown-prefix", "drafts below other or longer texts are dropped",
          unknown_prefixes},
    Check{"drafts-unknown-id", "unknown parents and repeated ids are dropped", unknown_ids},
    Check{"drafts-vocabulary", "drafts beyond the vocabulary are dropped",
          drafts_beyond_vocabulary},
    Check{"drafts-rate", "drafts beyond the rate are dropped, but their credit counts",
          drafts_beyond_rate},
    Check{"drafts-ended-round", "drafts of an ended round are ignored", drafts_of_ended_round},
    Check{"economy", "a run under economy has the same answer", economy},
    Check{"lockstep-waits", "one pass per complete hints", lockstep_waits},
    Check{"lockstep-nodes", "a pass under lockstep verifies all nodes", lockstep_takes_nodes},
};

}  // namespace

std::span<const Check> draft_checks() {
  return kChecks;
}

}  // namespace edgedraft::conformance
