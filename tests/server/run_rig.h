#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/passes/pass_loop.h"
#include "server/sessions/session_proposer.h"
#include "shared/constraints/token_texts.h"
#include "shared/types/prefix_hash.h"
#include "tests/server/plain_answer.h"
#include "tests/server/raw_client.h"
#include "tests/server/toy_session.h"
#include "tests/support/hint_nodes.h"
#include "tests/support/toy_models.h"

// A server's pass loop on a simulated clock, and devices that begin runs and send hints.
namespace edgedraft::server {

using namespace std::chrono_literals;
using testing::kToyEndToken;
using testing::kToyVocabulary;
using testing::RawClient;
using testing::ToyDecoder;
using Tokens = std::vector<std::uint32_t>;

inline constexpr std::uint32_t kContext = 160;
inline constexpr std::uint32_t kPromptCount = 6;
inline constexpr Duration kPassTime = 10ms;
inline constexpr Duration kRowTime = 100us;

// A device that knows the verdicts it has received and makes hints from a text that the test
// chooses.
class HintingClient {
 public:
  HintingClient(PassLoop& loop, const RawClient::Options& options, std::function<Instant()> now)
      : raw_(loop, options, std::move(now)) {}

  bool begin(const Tokens& prompt, const SamplingParams& sampling, const wire::RunTerms& run,
             const Constraints& constraints = {}) {
    text_ = prompt;
    prompt_count_ = prompt.size();
    next_id_ = 1;
    ended_ = false;
    return raw_.send(wire::Prefill{
        .tokens = prompt, .sampling = sampling, .constraints = constraints, .run = run});
  }
  // Continues after its known text in a new run. Verdicts that it has not read are sent again.
  bool go_on(const SamplingParams& sampling, const wire::RunTerms& run) {
    next_id_ = 1;
    raw_.heard.clear();
    return raw_.send(wire::Prefill{
        .base_length = static_cast<std::uint32_t>(text_.size()), .sampling = sampling, .run = run});
  }

  // Sends its whole text again after the server has forgotten the session.
  bool begin_anew(const wire::RunTerms& run) {
    next_id_ = 1;
    return raw_.send(wire::Prefill{.tokens = text_, .run = run});
  }

  // On a new connection: `known` of an earlier connection's session, `offline` written since.
  bool resume(const wire::SessionId& session, const Tokens& known, const Tokens& offline,
              std::uint32_t credit) {
    text_ = known;
    offline_ = offline;
    prompt_count_ = kPromptCount;
    return raw_.send(wire::Resume{.session = session,
                                  .verified_length = static_cast<std::uint32_t>(known.size()),
                                  .tokens = offline,
                                  .run = {.credit = credit}},
                     known);
  }

  // Processes received messages. Returns false if the answer has ended.
  bool listen() {
    for (const wire::Message& message : std::exchange(raw_.heard, {})) {
      const auto* verdict = std::get_if<wire::Verdict>(&message);
      if (verdict == nullptr) {
        ADD_FAILURE() << "expected a verdict";
        return false;
      }
      verdicts.push_back(*verdict);
      text_.insert(text_.end(), offline_.begin(), offline_.begin() + verdict->accepted_count);
      text_.insert(text_.end(), verdict->tokens.begin(), verdict->tokens.end());
      text_.push_back(verdict->next);
      EXPECT_EQ(text_.size(), verdict->length);
      if (verdict->ending != wire::Ending::none) ended_ = true;
    }
    return !ended_;
  }

  // A chain of hints for the continuation of its text.
  wire::Hints chain(const Tokens& follows, std::uint8_t score = 1) {
    wire::Hints hints = credit(0);
    hints.first = next_id_;
    hints.nodes = testing::hint_chain(follows, score);
    next_id_ += static_cast<std::uint32_t>(follows.size());
    return hints;
  }
  wire::Hints credit(std::uint32_t credit) const {
    return {.round = raw_.round(),
            .credit = credit,
            .position = static_cast<std::uint32_t>(text_.size()),
            .prefix_hash = prefix_hash(text_)};
  }
  // A chain of complete hints for the next pass of a run under lockstep.
  bool complete(const Tokens& follows) { return raw_.complete(testing::hint_chain(follows)); }
  // `behind` is the text at the time the hints were made.
  bool send(const wire::Hints& hints, const Tokens& behind) { return raw_.send(hints, behind); }
  bool send(const wire::Hints& hints) { return send(hints, text_); }

  Tokens answer() const {
    return Tokens(text_.begin() + static_cast<std::ptrdiff_t>(prompt_count_), text_.end());
  }
  const Tokens& text() const { return text_; }
  bool ended() const { return ended_; }
  std::uint32_t next_id() const { return next_id_; }
  RawClient& raw() { return raw_; }

  std::vector<wire::Verdict> verdicts;

 private:
  RawClient raw_;
  Tokens text_;
  Tokens offline_;  // not yet checked by the server
  std::size_t prompt_count_ = 0;
  std::uint32_t next_id_ = 1;
  bool ended_ = false;
};

// Proposes the given text at any position of the session, and probes that ignore it.
class KnownText final : public SessionProposer {
 public:
  // Counts its proposals in `asked`, if given.
  explicit KnownText(Tokens text, std::uint32_t probe_rows = 0, std::uint64_t* asked = nullptr)
      : text_(std::move(text)), rows_(probe_rows), asked_(asked) {}
  Proposal propose(const TargetSession& session, const ProposalLimits& limits) override {
    Proposal proposal;
    for (std::size_t at = session.tokens().size(); at < text_.size(); ++at) {
      if (proposal.tree.node_count() == std::min(limits.tree.depth, limits.tree.nodes)) break;
      proposal.tree.add(text_[at], proposal.tree.node_count(), -0.1f);
    }
    for (std::uint32_t i = 0; i < std::min(rows_, limits.probe_rows); ++i) {
      proposal.probes.rows.add(5, 0);
      proposal.probes.asked_count = proposal.probes.rows.node_count();
    }
    proposal.probes.id = ++id_;
    if (asked_ != nullptr) ++*asked_;
    return proposal;
  }

 private:
  Tokens text_;
  std::uint32_t rows_;
  std::uint64_t* asked_;
  std::uint64_t id_ = 0;
};

class RunTest : public testing::ToyTargetTest<kContext> {
 protected:
  RunTest() {
    open({.metrics = metrics_});
    loop_->measure_costs(1s);
  }

  SessionParts parts() {
    return {.decoder = decoder_,
            .context_count = kContext,
            .is_end = testing::is_toy_end,
            .texts = texts_};
  }

  void open(PassLoopOptions options) {
    clients_.clear();
    options.sessions.sessions_max = 64;
    // Time advances with the passes.
    if (!options.pace) {
      options.pace = [](std::uint32_t rows) { return kPassTime + rows * kRowTime; };
    }
    options.wait_until = [this](Instant end) { now_ = std::max(now_, end); };
    options.on_session_fault = [](const std::string& why) { ADD_FAILURE() << why; };
    loop_.emplace(parts(), options, [this] { return now_; });
  }

  HintingClient& connect(Tap* tap = nullptr, bool newest_row = false) {
    clients_.push_back(std::make_unique<HintingClient>(*loop_,
                                                       RawClient::Options{.id = clients_.size() + 1,
                                                                          .context_count = kContext,
                                                                          .tap = tap,
                                                                          .newest_row = newest_row},
                                                       [this] { return now_; }));
    return *clients_.back();
  }
  // A new client that begins a greedy run.
  HintingClient& start_run(const Tokens& prompt, const wire::RunTerms& run = {.credit = kContext}) {
    HintingClient& client = connect();
    EXPECT_TRUE(client.begin(prompt, {}, run));
    return client;
  }

  // One of several prompts whose plain answers have at least 30 tokens.
  Tokens prompt_of(std::size_t index) {
    static std::vector<Tokens> prompts;
    for (std::uint64_t seed = prompts.size(); prompts.size() <= index; ++seed) {
      Random random(seed);
      const Tokens tokens = testing::random_tokens(random, kPromptCount);
      if (plain(tokens).size() >= 30) prompts.push_back(tokens);
    }
    return prompts[index];
  }
  Tokens plain(const Tokens& prompt, const SamplingParams& sampling = {}) {
    return testing::plain_answer(parts(), prompt, kContext, sampling);
  }
  Tokens whole_text() const { return testing::joined(prompt_, expected_); }
  // The next `count` tokens of the plain answer after the client's known text.
  Tokens right(const HintingClient& client, const Tokens& answer, std::size_t count) {
    const std::size_t known = std::min(client.answer().size(), answer.size());
    return Tokens(
        answer.begin() + static_cast<std::ptrdiff_t>(known),
        answer.begin() + static_cast<std::ptrdiff_t>(std::min(known + count, answer.size())));
  }

  void run_until_idle() {
    for (int i = 0; i < 2000 && !loop_->idle(); ++i) loop_->step();
  }
  // Runs until the client's answer ends.
  void expect_whole(HintingClient& client, const Tokens& answer) {
    run_until_idle();
    EXPECT_FALSE(client.listen());
    EXPECT_EQ(client.answer(), answer);
  }

  Instant now_{1h};
  std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
  std::shared_ptr<const TokenTexts> texts_;  // used by open() to accept constraints
  std::optional<PassLoop> loop_;
  std::vector<std::unique_ptr<HintingClient>> clients_;
  const Tokens prompt_ = prompt_of(1);
  const Tokens expected_ = plain(prompt_);
};

}  // namespace edgedraft::server
