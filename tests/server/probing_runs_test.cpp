// Probing methods in runs: guesses beside hints, probe rows in passes, and interruptions of both.
#include <gtest/gtest.h>

#include <algorithm>

#include "server/proposers/drafter_proposer.h"
#include "server/proposers/probing_methods.h"
#include "shared/drafting/ngram/ngram_drafter.h"
#include "tests/server/run_rig.h"

namespace edgedraft::server {
namespace {

class ProbingRunsTest : public RunTest {
 protected:
  static constexpr std::uint32_t kProbes = 60;

  // Opens the loop with proposers that know the text and request probes.
  void open_with(const Tokens& text, std::uint32_t probes, PassLoopOptions options = {}) {
    speculation_.emplace(ProposerSource{.make =
                                            [=](std::shared_ptr<std::uint32_t>) {
                                              return std::make_unique<KnownText>(text, probes);
                                            },
                                        .session_bytes = 0,
                                        .probe_rows = probes,
                                        .joins_hints = true},
                         SpeculationOptions{.tree = {.breadth = 1, .depth = 4, .nodes = 4},
                                            .context_count = kContext});
    start(std::move(options));
  }
  void open_method(std::string_view name, bool retrieves = false, PassLoopOptions options = {}) {
    std::function<std::unique_ptr<SessionProposer>()> retrieval;
    if (retrieves) {
      retrieval = [] {
        return std::make_unique<DrafterProposer>(DrafterProposer::Parts{
            .drafter = std::make_unique<NgramDrafter>(adaptive_tree, kContext),
            .tap = nullptr,
            .positions_max = kContext});
      };
    }
    speculation_.emplace(probing_source(*find_probing_method(name), parts().is_end, retrieval),
                         SpeculationOptions{.context_count = kContext});
    start(std::move(options));
  }
  void start(PassLoopOptions options) {
    options.speculation = &*speculation_;
    options.metrics = metrics_;
    open(std::move(options));
    loop_->measure_costs(1s);
  }
  // Rows of all passes except those of prompts.
  std::uint64_t rows_since(const PassLoop::Count& before) const {
    return loop_->count().rows - before.rows;
  }

  std::optional<Speculation> speculation_;
};

TEST_F(ProbingRunsTest, GuessesJoinHints) {
  const Tokens prompt = prompt_of(1);
  const Tokens expected = plain(prompt);
  open_with(text_of(prompt), 0);
  HintingClient& client = connect();
  ASSERT_TRUE(client.begin(prompt, {}, {.credit = kContext}));
  loop_->step();
  ASSERT_TRUE(client.listen());
  // Two right hints, then a wrong one: the server's own guesses take over at the error.
  Tokens hinted = right(client, expected, 2);
  hinted.push_back(hinted.back() == 5 ? 6 : 5);
  ASSERT_TRUE(client.send(client.chain(hinted)));
  loop_->step();
  client.listen();
  const wire::Verdict& verdict = client.verdicts.at(1);
  EXPECT_EQ(verdict.tokens.size(), 4u);
  EXPECT_EQ(verdict.hinted, 3u);
  EXPECT_EQ(verdict.drafted, 2u) << "two of four guesses were also hinted";
  run_until_idle();
  EXPECT_FALSE(client.listen());
  EXPECT_EQ(client.answer(), expected);
}

TEST_F(ProbingRunsTest, CountsProbesAsRows) {
  const Tokens prompt = prompt_of(1);
  // A pass takes 10 ms plus 0.1 ms per row, so probes pay.
  open_with(text_of(prompt), kProbes);
  HintingClient& client = connect();
  ASSERT_TRUE(client.begin(prompt, {}, {.credit = kContext}));
  loop_->step();
  const auto before = loop_->count();
  run_until_idle();
  EXPECT_FALSE(client.listen());
  EXPECT_EQ(client.answer(), plain(prompt));
  EXPECT_GT(rows_since(before), kProbes * (loop_->count().passes - before.passes) * 3 / 4);
  EXPECT_LT(client.verdicts.size(), client.answer().size() / 3);
  // Metrics report how many of the rows were probes.
  std::uint64_t others = 0;
  for (std::size_t i = 1; i < client.verdicts.size(); ++i) {
    others += 1 + client.verdicts[i].drafted;
  }
  EXPECT_EQ(metrics_->probe_rows.value(), rows_since(before) - others);
}

TEST_F(ProbingRunsTest, NeverProbesIfRowCostsAsMuchAsPass) {
  const Tokens prompt = prompt_of(1);
  for (const std::string_view method : {"lookahead", "core"}) {
    PassLoopOptions options;
    open_method(method);
    options.speculation = &*speculation_;
    options.pace = [](std::uint32_t rows) { return rows * 10ms; };
    options.wait_until = [this](Instant end) { now_ = std::max(now_, end); };
    clients_.clear();
    loop_.emplace(parts(), options, [this] { return now_; });
    loop_->measure_costs(100s);
    HintingClient& client = connect();
    ASSERT_TRUE(client.begin(prompt, {}, {.credit = kContext}));
    loop_->step();
    const auto before = loop_->count();
    run_until_idle();
    EXPECT_FALSE(client.listen());
    EXPECT_EQ(client.answer(), plain(prompt));
    EXPECT_EQ(rows_since(before), loop_->count().passes - before.passes);
  }
}

TEST_F(ProbingRunsTest, RarelyProbesIfManySessionsSharePass) {
  const auto rows_a_token = [&](std::size_t count) {
    open_method("core");
    std::vector<HintingClient*> clients;
    std::uint64_t rows = 0;
    std::uint64_t tokens = 0;
    for (std::size_t i = 0; i < count; ++i) {
      clients.push_back(&connect());
      EXPECT_TRUE(clients.back()->begin(prompt_of(i % 8), {}, {.credit = kContext}));
    }
    while (std::ranges::any_of(clients, [](HintingClient* c) { return c->verdicts.empty(); })) {
      loop_->step();
      for (HintingClient* client : clients) client->listen();
    }
    const auto before = loop_->count();
    run_until_idle();
    for (std::size_t i = 0; i < count; ++i) {
      clients[i]->listen();
      EXPECT_EQ(clients[i]->answer(), plain(prompt_of(i % 8)));
      tokens += clients[i]->answer().size();
    }
    rows = rows_since(before);
    return static_cast<double>(rows) / static_cast<double>(tokens);
  };
  EXPECT_GT(rows_a_token(1), 15.0);
  EXPECT_LT(rows_a_token(40), 3.0);
}

// A waiting session does not lose its memory to another session's probes.
TEST_F(ProbingRunsTest, ProbesEvictNoSession) {
  const Tokens prompt = prompt_of(1);
  const auto evicted = [&](std::uint32_t probes) {
    open_with(text_of(prompt), probes,
              {.sessions = {.kv_bytes_max = SessionStore::session_bytes(parts())}});
    // Idle sessions hold the rest of the memory.
    const std::uint32_t pages = loop_->memory().pages;
    std::vector<HintingClient*> idle;
    Tokens long_prompt = prompt_of(2);
    long_prompt.resize(40, 7);
    while (loop_->memory().pages_held + 3 < pages) {
      idle.push_back(&connect());
      long_prompt.back() = 3 + static_cast<std::uint32_t>(idle.size());
      long_prompt.front() = 3 + static_cast<std::uint32_t>(idle.size());
      EXPECT_TRUE(idle.back()->begin(long_prompt, {}, {}));
      run_until_idle();
      now_ += 10s;
    }
    HintingClient& client = connect();
    EXPECT_TRUE(client.begin(prompt, {}, {.credit = 40}));
    run_until_idle();
    client.listen();
    EXPECT_EQ(client.text().size(), 40u);
    const Tokens text = text_of(prompt);
    EXPECT_TRUE(std::equal(client.text().begin(), client.text().end(), text.begin()));
    return loop_->memory().evictions;
  };
  EXPECT_EQ(evicted(kProbes), evicted(0));
}

TEST_F(ProbingRunsTest, SampledAnswersMatchPlainDecoding) {
  for (const std::string_view method : {"lookahead", "core"}) {
    for (const bool retrieves : {false, true}) {
      open_method(method, retrieves);
      for (const std::uint64_t seed : {11u, 12u}) {
        const SamplingParams sampling{.temperature = 0.8f, .seed = seed};
        HintingClient& client = connect();
        const Tokens prompt = prompt_of(3);
        ASSERT_TRUE(client.begin(prompt, sampling, {}));
        run_until_idle();
        if (!client.listen()) continue;
        const auto credit = static_cast<std::uint32_t>(client.text().size()) + 60;
        ASSERT_TRUE(client.go_on(sampling, {.credit = credit}));
        run_until_idle();
        client.listen();
        Tokens expected = plain(prompt, sampling);
        expected.resize(std::min<std::size_t>(expected.size(), 61));
        EXPECT_EQ(client.answer(), expected);
      }
    }
  }
}

}  // namespace
}  // namespace edgedraft::server
