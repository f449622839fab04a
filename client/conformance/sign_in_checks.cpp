#include <algorithm>
#include <array>
#include <optional>
#include <variant>

#include "client/conformance/check.h"
#include "client/conformance/subject.h"
#include "shared/protocol/outgoing.h"

namespace edgedraft::conformance {
namespace {

std::unique_ptr<Connection> connect(Subject& subject) {
  auto opened = Connection::open(subject.address());
  if (!opened) throw CheckFailed(opened.error().message);
  return *std::move(opened);
}

void expect_refused_hello(Subject& subject, const wire::Hello& hello, Errc code) {
  const auto connection = connect(subject);
  connection->send(wire::encode(hello));
  expect_fatal(*connection, code);
}

void expect_no_handshake(Subject& subject, Handshake handshake) {
  require(!Connection::open(subject.address(), handshake), "the handshake succeeds");
}

void greets(Subject& subject) {
  const Session first(subject.address());
  const Session second(subject.address());
  const wire::Welcome& welcome = first.welcome();
  require(welcome.version >= kProtocolVersionMin && welcome.version <= kProtocolVersion,
          [&] { return "version " + std::to_string(welcome.version) + " was not offered"; });
  require(welcome.scale_groups.empty(), "`scale_groups` without a `tap`");
  require(welcome.pad_bytes_up == 0 && welcome.pad_bytes_down == 0,
          "blocks of constant rate without `pad_tick_ms`");
  require(!welcome.newest_row, "`newest_row` is set, but was not requested");
  require(welcome.session != second.welcome().session, "two connections have one session id");
}

void takes_higher_versions(Subject& subject) {
  const auto connection = connect(subject);
  wire::Hello hello = hello_for(subject.address());
  hello.version_max = 0xFFFF;
  connection->send(wire::encode(hello));
  const auto answer = connection->next(kPatience);
  const auto* const welcome = answer ? std::get_if<wire::Welcome>(&*answer) : nullptr;
  require(welcome != nullptr && welcome->version >= kProtocolVersionMin, "no Welcome");
}

void refuses_unknown_version(Subject& subject) {
  wire::Hello hello = hello_for(subject.address());
  hello.version_min = hello.version_max = 0xFFFF;
  expect_refused_hello(subject, hello, Errc::version);
}

void refuses_wrong_token(Subject& subject) {
  if (subject.address().token.empty()) throw CheckSkipped("no --token-file was given");
  wire::Hello hello = hello_for(subject.address());
  hello.token.back() = hello.token.back() == 'x' ? 'y' : 'x';
  expect_refused_hello(subject, hello, Errc::unauthorized);
  hello.token.clear();
  expect_refused_hello(subject, hello, Errc::unauthorized);
}

void refuses_other_fingerprints(Subject& subject) {
  const Digest other = sha256(as_byte_view("edgedraft-conformance"));
  wire::Hello hello = hello_for(subject.address());
  hello.target = other;
  expect_refused_hello(subject, hello, Errc::mismatch);
  hello.target.reset();
  hello.tokenizer = other;
  expect_refused_hello(subject, hello, Errc::mismatch);
}

void refuses_unknown_tap(Subject& subject) {
  wire::Hello hello = hello_for(subject.address());
  hello.drafter = sha256(as_byte_view("edgedraft-conformance"));
  hello.drafter_name = "conformance";
  hello.tap = "edgedraft-conformance";
  expect_refused_hello(subject, hello, Errc::mismatch);
}

void wants_hello_first(Subject& subject) {
  const auto connection = connect(subject);
  connection->send(wire::encode(wire::Cancel{1}));
  expect_fatal(*connection, Errc::protocol);
}

void wants_one_hello(Subject& subject) {
  Session session(subject.address());
  session.connection().send(wire::encode(hello_for(subject.address())));
  session.expect_fatal(Errc::protocol);
}

void refuses_large_hello(Subject& subject) {
  const auto connection = connect(subject);
  Bytes header(kFrameHeaderBytes);
  encode_frame_header({.kind = static_cast<std::uint16_t>(wire::Kind::hello),
                       .payload_bytes = kHandshakePayloadBytesMax + 1},
                      std::span(header).first<kFrameHeaderBytes>());
  connection->send(header);
  expect_fatal(*connection, Errc::frame_too_large);
}

constexpr std::array kChecks{
    Check{"welcome", "a Welcome within its ranges, and a session id per connection", greets},
    Check{"newer-client", "the highest common version is chosen", takes_higher_versions},
    Check{"tls-1.2", "TLS 1.2 is refused",
          [](Subject& subject) { expect_no_handshake(subject, Handshake::tls_1_2); }},
    Check{"other-alpn", "a handshake without ALPN edgedraft/1 is refused",
          [](Subject& subject) { expect_no_handshake(subject, Handshake::other_alpn); }},
    Check{"no-common-version", "fatal `version`", refuses_unknown_version},
    Check{"wrong-token", "fatal `unauthorized`", refuses_wrong_token},
    Check{"other-fingerprints", "fatal `mismatch` for another target or tokenizer",
          refuses_other_fingerprints},
    Check{"unknown-tap", "fatal `mismatch`", refuses_unknown_tap},
    Check{"hello-first", "fatal `protocol` for a message before Hello", wants_hello_first},
    Check{"second-hello", "fatal `protocol`", wants_one_hello},
    Check{"large-hello", "fatal `frame_too_large` above 16 KiB before the sign-in",
          refuses_large_hello},
};

}  // namespace

std::span<const Check> sign_in_checks() {
  return kChecks;
}

}  // namespace edgedraft::conformance
