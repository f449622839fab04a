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
  draft = 5,
  verdict = 6,
  resume = 7,
  ping = 8,
  pong = 9,
  cancel = 10,
  close = 11,
  error = 12,
  hints = 13,
  pad = 14,  // of a padded connection: bytes that mean nothing, and no message
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
  std::uint32_t nodes_max = 0;      // of its trees
  std::uint32_t context_count = 0;  // tokens that it can hold; 0: any
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
  std::uint32_t nodes_max = 0;      // of a draft
  std::uint32_t row_budget = 0;     // rows (root included) that are cheap for the server now
  // Activations of a position: values that share a scale, in order. Empty: none are sent.
  std::vector<std::uint32_t> scale_groups{};
  // Largest stream that a Draft may ask for; 0: this server does not stream.
  std::uint32_t stream_tokens_max = 0;
  // In an experiment at a larger model's pace, what activations of a position are padded to.
  // 0: nothing is padded.
  std::uint32_t padded_row_bytes = 0;
  // Nodes of hints that it keeps for a session; 0: it takes none.
  std::uint32_t hint_nodes_max = 0;
  // The size of a padded connection's blocks each way; 0: it is not padded.
  std::uint32_t pad_bytes_up = 0;
  std::uint32_t pad_bytes_down = 0;
  // Verdicts bring the activations of the newest position alone, as the client asked.
  bool newest_row = false;
  bool operator==(const Welcome&) const = default;
};

// What a Prefill or Resume lets the server do beyond its answer, and what verdicts are to bring
// (version 2).
struct RunTerms {
  // The length up to which it may choose tokens without being asked again; 0: it answers and waits.
  std::uint32_t credit = 0;
  // The activations of positions that become valid follow the verdicts, as Activations.
  bool rows = false;
  // No pass for the root alone while hints may be on their way.
  bool economy = false;
  // Verdicts tell so many log probabilities a token: the chosen one's, then the likeliest. 0: none.
  std::uint8_t logprobs = 0;
  bool operator==(const RunTerms&) const = default;
};

// Prefill, Resume and Draft as a server reads them. What a client sends is made of types that hold
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
  Bytes padding{};  // to the size of the paced model's rows; means nothing
  bool operator==(const Activations&) const = default;
};

struct Draft {
  std::uint32_t round = 0;
  std::uint32_t base_length = 0;  // tokens of the session, root included: the root's position + 1
  // Node i (1, 2, ...) has tokens[i - 1] and hangs below parents[i - 1] < i; 0 is the root.
  std::vector<std::uint32_t> tokens{};
  std::vector<std::uint8_t> parents{};
  // Without nodes: the server goes on alone for so many tokens, a series of verdicts. 0: it does
  // not.
  std::uint32_t stream_tokens = 0;
  bool operator==(const Draft&) const = default;
};

// Nodes that may follow what the server has chosen, or will have: proposals that it may take into a
// pass, or leave. They never change an answer.
struct Hints {
  std::uint32_t round = 0;   // of the Prefill or Resume that the run began with
  std::uint32_t credit = 0;  // as in RunTerms, if larger than before
  bool economy = false;      // as in RunTerms, from now on
  // Node i has the id first + i; ids count up from 1 in a run.
  std::uint32_t first = 0;
  // A node hangs from the node whose id is `parents[i]` smaller, or, if that is 0, from the token
  // at position - 1 of a text whose first `position` tokens have this prefix_hash().
  std::uint32_t position = 0;
  std::uint64_t prefix_hash = 0;
  std::vector<std::uint32_t> tokens{};
  std::vector<std::uint16_t> parents{};
  std::vector<std::uint8_t> scores{};  // below the parent's, in parts of a nat (score.h)
  bool operator==(const Hints&) const = default;
};

inline constexpr std::uint32_t kOutlookTokenParts = 8;

struct Verdict {
  std::uint32_t round = 0;           // of the request that it answers
  std::uint32_t length = 0;          // of the session now: base_length of the next Draft
  std::uint32_t next = 0;            // the new root
  std::uint32_t accepted_count = 0;  // to Prefill and Resume: of the provisional tokens
  std::vector<std::uint8_t> path{};  // to Draft: accepted nodes from the root down
  Ending ending = Ending::none;
  std::uint32_t row_budget = 0;
  std::uint32_t queue_us = 0;   // waited for the device
  std::uint32_t verify_us = 0;  // from then until the answer stood, a pace kept included
  // To Draft, and of a run that brings rows: uncompressed rows of the positions that became valid,
  // as many as there are new tokens, the old root's first. Prefill and Resume get theirs in
  // Activations.
  Bytes activations{};
  // From a server that keeps a larger model's pace: what the pass was to take, and what it took
  // before any waiting. 0: no pace is kept.
  std::uint32_t pace_us = 0;
  std::uint32_t computed_us = 0;
  // In a stream or run: the new tokens before `next`. For the pass: nodes that the server drafted
  // for it, and how long that took.
  std::vector<std::uint32_t> tokens{};
  std::uint32_t drafted = 0;
  std::uint32_t draft_us = 0;
  // What a streamed token takes while as many are served as now; 0: not known.
  std::uint32_t stream_us = 0;
  // To Prefill and Resume: the same of drafts of 1, 2, 4, ... rows, queue and pass together, and
  // the tokens that each brings, in parts of 1 / kOutlookTokenParts. As many of the one as of the
  // other.
  std::vector<std::uint32_t> outlook_us{};
  std::vector<std::uint8_t> outlook_tokens{};
  // All sessions together would now get more tokens from streams than from drafts.
  bool prefers_streams = false;
  Bytes padding{};  // to the size of the paced model's rows; means nothing
  // In a run: hints that the pass took in, and the last id of those that had come when it began.
  std::uint32_t hinted = 0;
  std::uint32_t hints_seen = 0;
  std::uint32_t held_us = 0;  // waited for hints, before it waited for the device
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

using Message = std::variant<Hello, Welcome, Prefill, Activations, Draft, Verdict, Resume, Ping,
                             Pong, Cancel, Close, ErrorReport, Hints>;

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
