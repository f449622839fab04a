#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/constraints.h"
#include "shared/base/error.h"
#include "shared/base/finish.h"
#include "shared/base/hint_node.h"
#include "shared/base/logprob.h"
#include "shared/base/sampling_params.h"
#include "shared/base/sha256.h"
#include "shared/protocol/limits.h"

// The messages of docs/protocol.md as plain values, and how bytes become them.
namespace edgedraft::wire {

enum class Kind : std::uint16_t {
  hello = 1,
  welcome = 2,
  prefill = 3,
  activations = 4,
  verdict = 6,
  resume = 7,
  ping = 8,
  pong = 9,
  cancel = 10,
  close = 11,
  error = 12,
  hints = 13,
  pad = 14,  // bytes that mean nothing, and no message
};

// As in logs, e.g. "prefill".
std::string_view to_string(Kind kind);

// Every member of a message has a default, so that designated initialisers may leave it out.

using SessionId = std::array<std::byte, 16>;

// What becomes of tokens that the device wrote while the server was away.
enum class ResyncPolicy : std::uint8_t {
  check,  // verified like a draft; what follows the first difference is dropped
  keep,   // taken as context
};

// Whether the answer ends with the verdict's next token.
using Ending = Finish;

struct Hello {
  std::uint16_t version_min = kProtocolVersionMin;
  std::uint16_t version_max = kProtocolVersion;
  std::string agent{};  // program and version, for logs
  std::string token{};  // bearer token; empty where the certificate or nothing signs in
  // Nothing where the client does not care, e.g. the drafter's for plain decoding.
  std::optional<Digest> target{};
  std::optional<Digest> tokenizer{};
  std::optional<Digest> drafter{};
  std::string drafter_name{};
  // Names the activations that the drafter is sent; both sides compare it and read nothing into it.
  // Empty: none are wanted.
  std::string tap{};
  // Both sides are to send blocks of constant size, one in so many milliseconds; 0: as it comes.
  std::uint16_t pad_tick_ms = 0;
  // The drafter reads the newest position's activations and no others: older ones need not be sent.
  bool newest_row = false;
  bool operator==(const Hello&) const = default;
};

struct Welcome {
  std::uint16_t version = kProtocolVersion;
  SessionId session{};
  std::string agent{};
  std::string model{};
  std::uint32_t context_count = 0;  // tokens a session can hold
  std::uint32_t nodes_max = 0;      // of complete hints
  // Activations of a position: values that share a scale, in order. Empty: none are sent.
  std::vector<std::uint32_t> scale_groups{};
  // Nodes of hints that it keeps for a session.
  std::uint32_t hint_nodes_max = kHintNodesMax;
  // The size of a padded connection's blocks each way; 0: it is not padded.
  std::uint32_t pad_bytes_up = 0;
  std::uint32_t pad_bytes_down = 0;
  // Verdicts bring the activations of the newest position alone, as the client asked.
  bool newest_row = false;
  bool operator==(const Welcome&) const = default;
};

// What the passes of a run wait for, and so who sets the pace of an answer.
enum class Hold : std::uint8_t {
  none,      // nothing: the server goes on by itself and takes the hints that have come
  economy,   // hints on their way, instead of a pass for the root alone
  lockstep,  // complete hints for the present length: a round trip per pass (the papers' cycle)
};

constexpr std::string_view to_string(Hold hold) {
  switch (hold) {
    case Hold::none:
      return "none";
    case Hold::economy:
      return "economy";
    case Hold::lockstep:
      return "lockstep";
  }
  return "";
}

// What a Prefill or Resume lets the server do beyond its answer, and what verdicts are to bring.
struct RunTerms {
  // The length up to which it may choose tokens without being asked again; 0: it answers and waits.
  std::uint32_t credit = 0;
  // The activations of positions that become valid are sent: in verdicts under lockstep, otherwise
  // after them, as Activations.
  bool rows = false;
  Hold hold = Hold::none;
  // Verdicts tell so many log probabilities a token: the chosen one's, then the likeliest. 0: none.
  std::uint8_t logprobs = 0;
  bool operator==(const RunTerms&) const = default;
};

// Prefill and Resume as a server reads them. What a client sends is made of types that hold
// nothing private (outgoing.h).

struct Prefill {
  std::uint32_t round = 0;
  std::uint32_t base_length = 0;        // leading tokens of the session that stay
  std::vector<std::uint32_t> tokens{};  // what follows them
  std::uint32_t provisional_count = 0;  // of `tokens`, at their end, written offline
  ResyncPolicy policy = ResyncPolicy::check;
  std::uint32_t activations_from = 0;  // first position whose activations the client lacks
  SamplingParams sampling{};
  Constraints constraints{};
  RunTerms run{};
  bool operator==(const Prefill&) const = default;
};

struct Resume {
  std::uint32_t round = 0;
  SessionId session{};
  std::uint32_t verified_length = 0;    // verified tokens that the client holds, root included
  Digest verified_hash{};               // token_hash() of them
  std::vector<std::uint32_t> tokens{};  // written offline behind them
  ResyncPolicy policy = ResyncPolicy::check;
  std::uint32_t activations_from = 0;
  SamplingParams sampling{};
  Constraints constraints{};
  RunTerms run{};
  bool operator==(const Resume&) const = default;
};

enum class Codec : std::uint8_t {
  none,
  gzip,
};

// Rows of positions first..first + count - 1 (activation_codec.h has their layout).
struct Activations {
  std::uint32_t round = 0;  // of the Prefill or Resume that they belong to, or whose run
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  Codec codec = Codec::none;
  Bytes data{};
  bool operator==(const Activations&) const = default;
};

// Nodes that may follow what the server has chosen, or will have. They never change an answer.
struct Hints {
  std::uint32_t round = 0;   // of the Prefill or Resume that the run began with
  std::uint32_t credit = 0;  // as in RunTerms, if larger than before
  Hold hold = Hold::none;    // from now on; not read in a run under lockstep
  // Nothing more comes for the text of `position` tokens: a run under lockstep verifies exactly
  // these nodes, which have neither ids nor scores.
  bool complete = false;
  // Node i has the id first + i; ids count up from 1 in a run.
  std::uint32_t first = 0;
  // A node without a parent hangs from the token at position - 1 of a text whose first `position`
  // tokens have this prefix_hash().
  std::uint32_t position = 0;
  std::uint64_t prefix_hash = 0;  // 0 in complete hints
  std::vector<HintNode> nodes{};  // of score 0 in complete hints
  bool operator==(const Hints&) const = default;
};

struct Verdict {
  std::uint32_t round = 0;              // of the request that it answers
  std::uint32_t length = 0;             // of the session now
  std::uint32_t next = 0;               // the new root
  std::uint32_t accepted_count = 0;     // to Prefill and Resume: of the provisional tokens
  std::vector<std::uint32_t> tokens{};  // of a run: the new ones before `next`
  Ending ending = Ending::none;
  // Of a run under lockstep that brings rows: uncompressed rows of the positions that became valid,
  // as many as there are new tokens, the old root's first.
  Bytes activations{};
  // Microseconds: waited for the device, then until the answer stood, and before both for hints.
  std::uint32_t queue_us = 0;
  std::uint32_t verify_us = 0;
  std::uint32_t held_us = 0;
  // Nodes that the server drafted for the pass, and how long that took.
  std::uint32_t drafted = 0;
  std::uint32_t draft_us = 0;
  // Hints that the pass took in, and the last id of those that had come when it began.
  std::uint32_t hinted = 0;
  std::uint32_t hints_seen = 0;
  // For the last of the new tokens, `next` among them: as many of each as were asked for. A token
  // that was taken as it came has none.
  std::vector<Logprob> logprobs{};
  bool operator==(const Verdict&) const = default;
};

struct Ping {
  std::uint64_t nonce = 0;
  bool operator==(const Ping&) const = default;
};

struct Pong {
  std::uint64_t nonce = 0;
  bool operator==(const Pong&) const = default;
};

// Drops the work on `round`.
struct Cancel {
  std::uint32_t round = 0;
  bool operator==(const Cancel&) const = default;
};

struct Close {
  std::string reason{};
  bool operator==(const Close&) const = default;
};

// The answer to a request that failed, or the last message of a connection.
struct ErrorReport {
  std::uint32_t round = 0;  // of the request; 0 where there is none
  Errc code = Errc::protocol;
  bool fatal = true;
  std::string message{};
  bool operator==(const ErrorReport&) const = default;
};

using Message = std::variant<Hello, Welcome, Prefill, Activations, Verdict, Resume, Ping, Pong,
                             Cancel, Close, ErrorReport, Hints>;

Kind kind_of(const Message& message);

// The message of a frame's payload, every value checked.
//
// Errors    bad_message  no valid FlatBuffers table of that kind, or an unknown kind or enum value
//           protocol     a value outside its range (docs/protocol.md, "Ranges")
Result<Message> decode(std::uint16_t kind, ByteView payload);

// What the server compares a Hello with. The drafter's is nothing where the client's kind has none
// on the server.
struct Fingerprints {
  std::optional<Digest> target{};
  std::optional<Digest> tokenizer{};
  std::optional<Digest> drafter{};
};

// Errors    mismatch naming each fingerprint that both sides state and that differs
Result<void> check_fingerprints(const Hello& hello, const Fingerprints& server);

}  // namespace edgedraft::wire
