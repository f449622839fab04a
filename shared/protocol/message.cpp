#include "shared/protocol/message.h"

#include <cstddef>
#include <iterator>

#include "shared/protocol/outgoing.h"

namespace edgedraft::wire {
namespace {

// Adds `name` to `names` if both sides sent a fingerprint and they differ.
void compare(const std::optional<Digest>& client, const std::optional<Digest>& server,
             std::string_view name, std::string& differing) {
  if (!client || !server || *client == *server) return;
  if (!differing.empty()) differing += ", ";
  differing += std::string(name) + " (client " + to_hex(*client).substr(0, 12) + ", server " +
               to_hex(*server).substr(0, 12) + ")";
}

struct KindOf {
  Kind operator()(const Hello&) const { return Kind::hello; }
  Kind operator()(const Welcome&) const { return Kind::welcome; }
  Kind operator()(const Prefill&) const { return Kind::prefill; }
  Kind operator()(const OutgoingPrefill&) const { return Kind::prefill; }
  Kind operator()(const Activations&) const { return Kind::activations; }
  Kind operator()(const Hints&) const { return Kind::hints; }
  Kind operator()(const OutgoingHints&) const { return Kind::hints; }
  Kind operator()(const Verdict&) const { return Kind::verdict; }
  Kind operator()(const Resume&) const { return Kind::resume; }
  Kind operator()(const OutgoingResume&) const { return Kind::resume; }
  Kind operator()(const Ping&) const { return Kind::ping; }
  Kind operator()(const Pong&) const { return Kind::pong; }
  Kind operator()(const Cancel&) const { return Kind::cancel; }
  Kind operator()(const Close&) const { return Kind::close; }
  Kind operator()(const ErrorReport&) const { return Kind::error; }
};

}  // namespace

std::string_view to_string(Kind kind) {
  constexpr std::string_view kNames[] = {"unknown", "hello",   "welcome", "prefill", "activations",
                                         "unknown", "verdict", "resume",  "ping",    "pong",
                                         "cancel",  "close",   "error",   "hints",   "pad"};
  const auto number = static_cast<std::size_t>(kind);
  return kNames[number < std::size(kNames) ? number : 0];
}

Kind kind_of(const Message& message) {
  return std::visit(KindOf(), message);
}

Kind kind_of(const OutgoingMessage& message) {
  return std::visit(KindOf(), message);
}

Result<void> check_fingerprints(const Hello& hello, const Fingerprints& server) {
  std::string differing;
  compare(hello.target, server.target, "target", differing);
  compare(hello.tokenizer, server.tokenizer, "tokenizer", differing);
  compare(hello.drafter, server.drafter, "drafter", differing);
  if (differing.empty()) return boost::system::in_place_value;
  return Error{Errc::mismatch,
               "the client's bundle does not match the server's model; different "
               "fingerprints: " +
                   differing};
}

}  // namespace edgedraft::wire
