#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "client/conformance/check.h"
#include "client/conformance/subject.h"
#include "shared/protocol/outgoing.h"

namespace edgedraft::conformance {
namespace {

// Replaced in encoded frames, so no other field may have this value.
constexpr std::uint32_t kMark = 0x5A5A5A;

constexpr std::uint16_t number_of(wire::Kind kind) {
  return static_cast<std::uint16_t>(kind);
}

// A session commits `fault`, which must end its connection alone.
template <class Fault>
void expect_fault(Subject& subject, Errc code, const Fault& fault) {
  subject.text();
  Session bystander = subject.session();
  Session offender = subject.session();
  fault(offender);
  offender.expect_fatal(code);
  subject.expect_service(bystander);
}

// As above, for a frame.
void expect_bad_frame(Subject& subject, Errc code, const Bytes& frame) {
  expect_fault(subject, code, [&](Session& session) { session.connection().send(frame); });
}

Bytes payload_of(const Bytes& frame) {
  return {frame.begin() + kFrameHeaderBytes, frame.end()};
}

void large_frame(Subject& subject) {
  Bytes header(kFrameHeaderBytes);
  encode_frame_header({.kind = number_of(wire::Kind::prefill),
                       .payload_bytes = std::numeric_limits<std::uint32_t>::max()},
                      std::span(header).first<kFrameHeaderBytes>());
  expect_bad_frame(subject, Errc::frame_too_large, header);
}

void other_frame_version(Subject& subject) {
  expect_bad_frame(subject, Errc::version,
                   frame_of(number_of(wire::Kind::cancel), {}, kFrameVersion + 1));
}

void damaged_message(Subject& subject) {
  for (const wire::Kind kind : {wire::Kind::prefill, wire::Kind::resume, wire::Kind::hints,
                                wire::Kind::cancel, wire::Kind::ping}) {
    expect_bad_frame(subject, Errc::bad_message,
                     frame_of(number_of(kind), Bytes(64, std::byte{0xFF})));
  }
}

void truncated_message(Subject& subject) {
  expect_fault(subject, Errc::bad_message, [&](Session& session) {
    Bytes payload = payload_of(session.prefill_frame(subject.prompt()));
    payload.resize(payload.size() - 32);
    session.connection().send(frame_of(number_of(wire::Kind::prefill), payload));
  });
}

void unknown_kind(Subject& subject) {
  expect_bad_frame(subject, Errc::bad_message, frame_of(999, Bytes(16)));
}

void message_of_server(Subject& subject) {
  expect_bad_frame(subject, Errc::protocol,
                   wire::encode(wire::Verdict{.round = 1, .length = 2, .next = 1}));
}

void wide_token(Subject& subject) {
  expect_fault(subject, Errc::protocol, [&](Session& session) {
    Tokens text = subject.prompt();
    text.push_back(kMark);
    session.connection().send(patched(session.prefill_frame(text), kMark, kTokenIdEnd + kMark));
  });
}

void wrong_temperature(Subject& subject) {
  expect_fault(subject, Errc::protocol, [&](Session& session) {
    session.prefill(subject.prompt(), {.sampling = {.temperature = -1.0f}});
  });
}

void skipped_round(Subject& subject) {
  expect_fault(subject, Errc::protocol, [&](Session& session) {
    session.skip_round();
    session.prefill(subject.prompt());
  });
}

void base_beyond_session(Subject& subject) {
  expect_fault(subject, Errc::protocol,
               [&](Session& session) { session.prefill(subject.prompt(), {}, 4); });
}

void cancel_of_other_round(Subject& subject) {
  expect_fault(subject, Errc::protocol, [&](Session& session) {
    session.prefill(subject.prompt());
    session.verdict();
    session.connection().send(wire::encode(wire::Cancel{session.round() + 1}));
  });
}

void parent_below_first_id(Subject& subject) {
  expect_fault(subject, Errc::protocol, [&](Session& session) {
    session.prefill(subject.prompt(), subject.whole_run());
    session.hints({.nodes = {{.token = 1, .distance = 5}}});
  });
}

// The nearest to a cycle or a forward reference that a node can express.
void parent_outside_message(Subject& subject) {
  expect_fault(subject, Errc::protocol, [&](Session& session) {
    session.prefill(subject.prompt(), subject.whole_run(wire::Hold::lockstep));
    session.verdict();
    session.connection().send(patched(session.complete_frame(session.text(), {{.token = kMark}}),
                                      kMark, kMark | 3u << 24));
  });
}

void complete_hints_elsewhere(Subject& subject) {
  expect_fault(subject, Errc::protocol, [&](Session& session) {
    session.prefill(subject.prompt(), subject.whole_run(wire::Hold::lockstep));
    session.verdict();
    session.connection().send(session.complete_frame(subject.prompt(), {}));
  });
}

void switch_to_lockstep(Subject& subject) {
  expect_fault(subject, Errc::protocol, [&](Session& session) {
    const auto given = static_cast<std::uint32_t>(subject.prompt().size());
    session.prefill(subject.prompt(), {.run = {.credit = given + 1}});
    session.verdict();
    session.hints({}, given + 4, wire::Hold::lockstep);
  });
}

void hints_without_run(Subject& subject) {
  expect_fault(subject, Errc::protocol, [&](Session& session) {
    session.prefill(subject.prompt());
    session.verdict();
    wire::OutgoingHints hints{.round = session.round() + 1};
    TaintLedger ledger;
    ledger.append(1, Provenance::given);
    hints.hints = SafeHints(ledger, {});
    session.connection().send(wire::encode(hints));
  });
}

void half_frame(Subject& subject) {
  Session bystander = subject.session();
  {
    Session offender = subject.session();
    const Bytes frame = offender.prefill_frame(subject.prompt());
    offender.connection().send(ByteView(frame).first(frame.size() / 2));
    offender.connection().cut();
  }
  subject.expect_service(bystander);
}

void silent_reader(Subject& subject) {
  Session bystander = subject.session();
  Session offender = subject.session();
  offender.prefill(subject.prompt(), {.run = {.credit = offender.welcome().context_count}});
  subject.expect_service(bystander);
}

constexpr std::array kChecks{
    Check{"large-frame", "fatal `frame_too_large`; others are served", large_frame},
    Check{"frame-version", "fatal `version`; others are served", other_frame_version},
    Check{"damaged-message", "fatal `bad_message`; others are served", damaged_message},
    Check{"truncated-message", "fatal `bad_message`; others are served", truncated_message},
    Check{"unknown-kind", "fatal `bad_message`; others are served", unknown_kind},
    Check{"servers-message", "fatal `protocol` for a server's message; others are served",
          message_of_server},
    Check{"wide-token", "fatal `protocol` for a token of 2^24 or more; others are served",
          wide_token},
    Check{"temperature", "fatal `protocol` for a negative temperature; others are served",
          wrong_temperature},
    Check{"skipped-round", "fatal `protocol`; others are served", skipped_round},
    Check{"base-beyond-session", "fatal `protocol`; others are served", base_beyond_session},
    Check{"cancel-other-round", "fatal `protocol`; others are served", cancel_of_other_round},
    Check{"parent-below-1", "fatal `protocol` for a parent's id below 1; others are served",
          parent_below_first_id},
    Check{"parent-outside", "fatal `protocol` for a parent outside the message; others are served",
          parent_outside_message},
    Check{"complete-elsewhere",
          "fatal `protocol` for complete hints at another length; others are served",
          complete_hints_elsewhere},
    Check{"switch-to-lockstep", "fatal `protocol`; others are served", switch_to_lockstep},
    Check{"hints-too-early", "fatal `protocol` for a round to come; others are served",
          hints_without_run},
    Check{"half-frame", "a connection cut within a frame disturbs no other", half_frame},
    Check{"silent-reader", "a client that does not read disturbs no other", silent_reader},
};

}  // namespace

std::span<const Check> fault_checks() {
  return kChecks;
}

}  // namespace edgedraft::conformance
