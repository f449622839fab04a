#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/conformance/connection.h"
#include "shared/base/clock.h"
#include "shared/protocol/message.h"
#include "shared/types/hint_node.h"
#include "shared/types/sampling_params.h"

namespace edgedraft::conformance {

using Tokens = std::vector<std::uint32_t>;

// Time for a server to answer, a slow pass and a queue included.
inline constexpr Duration kPatience = std::chrono::seconds(60);
// Silence that counts as waiting.
inline constexpr Duration kSilence = std::chrono::milliseconds(250);

Tokens first_of(const Tokens& tokens, std::size_t count);

// A frame of any kind with any payload.
Bytes frame_of(std::uint16_t kind, ByteView payload, std::uint16_t version = kFrameVersion);
// `frame` with its only aligned `from` replaced, for values that encode() does not write.
Bytes patched(Bytes frame, std::uint32_t from, std::uint32_t to);

// Hello with the server's token.
wire::Hello hello_for(const ServerAddress& server);

// Nodes below the text `behind`. A hash of other tokens makes an unknown prefix.
struct Draft {
  Tokens behind{};
  std::vector<HintNode> nodes{};
  std::uint32_t first = 1;  // id of the first node
};

// A chain of `tokens`; for plain and complete hints.
std::vector<HintNode> chain(const Tokens& tokens);

struct Terms {
  wire::RunTerms run{};
  SamplingParams sampling{};
  std::uint32_t provisional_count = 0;
  wire::ResyncPolicy policy = wire::ResyncPolicy::check;
};

// A signed-in connection and the text that it holds. Each verdict is checked against its request.
// Functions throw CheckFailed if the server does something else than they wait for.
class Session {
 public:
  // `vocabulary_count`: a verdict's tokens are below it.
  explicit Session(const ServerAddress& server, std::uint32_t vocabulary_count = kTokenIdEnd);

  // Sends Close.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const wire::Welcome& welcome() const { return welcome_; }
  Connection& connection() { return *connection_; }
  std::uint32_t round() const { return round_; }
  // The prompt and the answer so far.
  const Tokens& text() const { return text_; }
  std::uint32_t length() const { return static_cast<std::uint32_t>(text_.size()); }
  // The answer has ended by itself.
  wire::Ending ending() const { return ending_; }

  // The whole frame of the next Prefill, which keeps the first `base` tokens of `text`.
  Bytes prefill_frame(const Tokens& text, const Terms& terms = {}, std::uint32_t base = 0) const;
  void prefill(const Tokens& text, const Terms& terms = {}, std::uint32_t base = 0);
  // Takes over the session `id`, which holds `verified`, with `offline` after it.
  void resume(const wire::SessionId& id, const Tokens& verified, const Tokens& offline = {},
              const Terms& terms = {});
  Bytes hints_frame(const Draft& draft, std::uint32_t credit = 0,
                    wire::Hold hold = wire::Hold::none) const;
  // Plain hints; without nodes they only set credit and hold.
  void hints(const Draft& draft, std::uint32_t credit = 0, wire::Hold hold = wire::Hold::none);
  Bytes complete_frame(const Tokens& behind, const std::vector<HintNode>& nodes) const;
  void complete(const std::vector<HintNode>& nodes);
  void cancel();
  // The next request gets a number too high.
  void skip_round() { ++round_; }

  // Waits for the request's next verdict and appends its tokens to the text.
  wire::Verdict verdict();
  // Takes verdicts until the text has `length` tokens or the answer ends.
  void run_to(std::uint32_t length);
  // Waits for the request's verdict, or returns its refusal.
  std::optional<wire::ErrorReport> answered();
  // Waits for a refusal of the request that leaves the connection open.
  wire::ErrorReport refusal();
  // Waits for a fatal Error with this code, then for the end of the connection.
  void expect_fatal(Errc code);
  // Fails if a verdict of the current request arrives within kSilence.
  void expect_silence(const char* when);

 private:
  std::optional<wire::Message> reply(Duration patience);
  void begin(Tokens text, const Terms& terms);
  void check(const wire::Verdict& verdict);

  std::unique_ptr<Connection> connection_;
  wire::Welcome welcome_;
  std::uint32_t vocabulary_count_;
  std::uint32_t round_ = 0;
  Tokens text_;
  Terms terms_;
  std::uint32_t credit_ = 0;
  bool is_answered_ = false;
  wire::Ending ending_ = wire::Ending::none;
};

// As Session::expect_fatal(), also before the sign-in.
void expect_fatal(Connection& connection, Errc code);

}  // namespace edgedraft::conformance
