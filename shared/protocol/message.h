#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/base/sha256.h"
#include "shared/protocol/limits.h"
#include "shared/types/constraints.h"
#include "shared/types/finish.h"
#include "shared/types/hint_node.h"
#include "shared/types/logprob.h"
#include "shared/types/pass_time.h"
#include "shared/types/sampling_params.h"

// Messages of docs/protocol.md as plain values, and their decoder.
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
  pad = 14,  // padding, ignored
};

// Name in logs, e.g. "prefill".
std::string_view to_string(Kind kind);

// Every member of a message has a default, so that designated initialisers may leave it out.

using SessionId = std::array<std::byte, 16>;

// Treatment of tokens that the device wrote while the server was away.
enum class ResyncPolicy : std::uint8_t {
  check,  // verified like a draft; tokens after the first difference are dropped
  keep,   // taken as context
};

// Whether the answer ends with the verdict's next token.
using Ending = Finish;

struct Hello {
  std::uint16_t version_min = kProtocolVersionMin;
  std::uint16_t version_max = kProtocolVersion;
  std::string agent{};  // program and version, for logs
  std::string token{};  // bearer token; empty if the client signs in by certificate or not at all
  // Null: not compared, e.g. the drafter in plain decoding.
  std::optional<Digest> target{};
  std::optional<Digest> tokenizer{};
  std::optional<Digest> drafter{};
  std::string drafter_name{};
  // Names the activations that the drafter needs. Both sides only compare it. Empty: no
  // activations.
  std::string tap{};
  // Requests constant-rate padding: one block per so many milliseconds; 0: none.
  std::uint16_t pad_tick_ms = 0;
  // The drafter reads only the newest position's activations, so older ones need not be sent.
  bool newest_row = false;
  bool operator==(const Hello&) const = default;
};

struct Welcome {
  std::uint16_t version = kProtocolVersion;
  SessionId session{};
  std::string agent{};
  std::string model{};
  std::uint32_t context_count = 0;  // tokens per session
  std::uint32_t nodes_max = 0;      // most nodes of complete hints
  // Activations of a position: sizes of the groups that share a scale. Empty: none are sent.
  std::vector<std::uint32_t> scale_groups{};
  // Hint nodes that the server keeps per session.
  std::uint32_t hint_nodes_max = kHintNodesMax;
  // Block size of a padded connection, per direction; 0: not padded.
  std::uint32_t pad_bytes_up = 0;
  std::uint32_t pad_bytes_down = 0;
  // Verdicts carry only the newest position's activations, as the client requested.
  bool newest_row = false;
  // Measured passes, fewest rows first; empty: not measured.
  std::vector<PassTime> pass_times{};
  // Name of this server among the replicas behind its address; empty: it has none.
  std::string replica{};
  // Build and kind of device. Replicas with the same text compute the same bits; empty: unknown.
  std::string arithmetic{};
  // Fingerprint of the target's file, for receipts; null: unknown.
  std::optional<Digest> target{};
  bool operator==(const Welcome&) const = default;
};

// Condition for the next pass of a run.
enum class Hold : std::uint8_t {
  none,      // the server continues at once with the hints that have arrived
  economy,   // waits for hints in flight instead of running a pass for the root alone
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

// Terms of a run: how far the server may continue on its own, and the contents of verdicts.
struct RunTerms {
  // Length up to which the server may choose tokens unasked; 0: it answers and waits.
  std::uint32_t credit = 0;
  // Send activations of positions as they become valid: in verdicts under lockstep, otherwise as
  // Activations after them.
  bool rows = false;
  Hold hold = Hold::none;
  // Log probabilities per token in verdicts: the chosen token's, then the likeliest. 0: none.
  std::uint8_t logprobs = 0;
  bool operator==(const RunTerms&) const = default;
};

// Prefill and Resume as the server reads them. A client builds them from types that cannot hold
// private text (outgoing.h).

struct Prefill {
  std::uint32_t round = 0;
  std::uint32_t base_length = 0;        // leading tokens of the session that are kept
  std::vector<std::uint32_t> tokens{};  // tokens after them
  std::uint32_t provisional_count = 0;  // trailing part of `tokens` that was written offline
  ResyncPolicy policy = ResyncPolicy::check;
  std::uint32_t activations_from = 0;  // first position whose activations the client lacks
  SamplingParams sampling{};
  Constraints constraints{};
  RunTerms run{};
  // Requests a signature of the text that the server checks (receipt.h).
  bool receipt = false;
  bool operator==(const Prefill&) const = default;
};

struct Resume {
  std::uint32_t round = 0;
  SessionId session{};
  std::uint32_t verified_length = 0;    // verified tokens that the client holds, root included
  Digest verified_hash{};               // token_hash() of them
  std::vector<std::uint32_t> tokens{};  // written offline, after the verified ones
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

// Rows of positions first..first + count - 1; layout in activation_codec.h.
struct Activations {
  std::uint32_t round = 0;  // round of their Prefill or Resume
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  Codec codec = Codec::none;
  Bytes data{};
  bool operator==(const Activations&) const = default;
};

// Candidate nodes after the tokens chosen so far or later. They never change an answer.
struct Hints {
  std::uint32_t round = 0;   // round of the Prefill or Resume that started the run
  std::uint32_t credit = 0;  // as in RunTerms; ignored unless larger than before
  Hold hold = Hold::none;    // from now on; ignored in a lockstep run
  // The hints for the text of `position` tokens are complete: a lockstep run verifies exactly these
  // nodes, which have neither ids nor scores.
  bool complete = false;
  // Node i has id first + i; ids of a run count up from 1.
  std::uint32_t first = 0;
  // A node without a parent follows the token at position - 1 of a text whose first `position`
  // tokens have this prefix_hash().
  std::uint32_t position = 0;
  std::uint64_t prefix_hash = 0;  // 0 in complete hints
  std::vector<HintNode> nodes{};  // complete hints have score 0
  bool operator==(const Hints&) const = default;
};

struct Verdict {
  std::uint32_t round = 0;              // round of the answered request
  std::uint32_t length = 0;             // session length after this verdict
  std::uint32_t next = 0;               // the new root
  std::uint32_t accepted_count = 0;     // accepted provisional tokens, for Prefill and Resume
  std::vector<std::uint32_t> tokens{};  // new tokens of a run before `next`
  Ending ending = Ending::none;
  // Lockstep runs with rows: uncompressed rows of the positions that became valid, one per new
  // token, the old root's first.
  Bytes activations{};
  // Microseconds: waiting for the device, computing, and waiting for hints before that.
  std::uint32_t queue_us = 0;
  std::uint32_t verify_us = 0;
  std::uint32_t held_us = 0;
  // Nodes that the server drafted for the pass, and the time that took.
  std::uint32_t drafted = 0;
  std::uint32_t draft_us = 0;
  // Hints used in the pass, and the last id that had arrived when it began.
  std::uint32_t hinted = 0;
  std::uint32_t hints_seen = 0;
  // Log probabilities of the last new tokens, including `next`: the requested number per token. A
  // token accepted without verification has none.
  std::vector<Logprob> logprobs{};
  // Signature by the server's TLS key, if the Prefill requested one (receipt.h).
  Bytes receipt{};
  bool operator==(const Verdict&) const = default;
};

struct Ping {
  std::uint64_t nonce = 0;
  // Round of the request whose tokens the server is reading; 0: none.
  std::uint32_t reading = 0;
  bool operator==(const Ping&) const = default;
};

struct Pong {
  std::uint64_t nonce = 0;
  bool operator==(const Pong&) const = default;
};

// Drops the work for `round`.
struct Cancel {
  std::uint32_t round = 0;
  bool operator==(const Cancel&) const = default;
};

struct Close {
  std::string reason{};
  bool operator==(const Close&) const = default;
};

// A failed request, or the last message of a connection.
struct ErrorReport {
  std::uint32_t round = 0;  // round of the request; 0: none
  Errc code = Errc::protocol;
  bool fatal = true;
  std::string message{};
  bool operator==(const ErrorReport&) const = default;
};

using Message = std::variant<Hello, Welcome, Prefill, Activations, Verdict, Resume, Ping, Pong,
                             Cancel, Close, ErrorReport, Hints>;

Kind kind_of(const Message& message);

// Decodes a payload and checks every value.
//
// Errors    bad_message  not a FlatBuffers table of that kind, or an unknown kind or enum value
//           protocol     a value outside its range (docs/protocol.md, "Ranges")
Result<Message> decode(std::uint16_t kind, ByteView payload);

// Fingerprints that the server compares with a Hello. The drafter's is null if the server has none
// for the client's kind.
struct Fingerprints {
  std::optional<Digest> target{};
  std::optional<Digest> tokenizer{};
  std::optional<Digest> drafter{};
};

// Errors    mismatch naming each fingerprint that both sides sent and that differs
Result<void> check_fingerprints(const Hello& hello, const Fingerprints& server);

}  // namespace edgedraft::wire
