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
  void open_with(std::uint32_t probes, PassLoopOptions options = {}) {
    speculation_.emplace(
        ProposerSource{.make =
                           [text = whole_text(), probes](std::shared_ptr<std::uint32_t>) {
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
  open_with(0);
  HintingClient& client = start_run(prompt_);
  loop_->step();
  ASSERT_TRUE(client.listen());
  // Two right hints, then a wrong one: the server's own guesses take over at the error.
  Tokens hinted = right(client, expected_, 2);
  hinted.push_back(hinted.back() == 5 ? 6 : 5);
  ASSERT_TRUE(client.send(client.chain(hinted)));
  loop_->step();
  client.listen();
  const wire::Verdict& verdict = client.verdicts.at(1);
  EXPECT_EQ(verdict.tokens.size(), 4u);
  EXPECT_EQ(verdict.hinted, 3u);
  EXPECT_EQ(verdict.drafted, 2u) << "two of four guesses were also hinted";
  expect_whole(client, expected_);
}

TEST_F(ProbingRunsTest, CountsProbesAsRows) {
  // A pass takes 10 ms plus 0.1 ms per row, so probes pay.
  open_with(kProbes);
  HintingClient& client = start_run(prompt_);
  loop_->step();
  const auto before = loop_->count();
  expect_whole(client, expected_);
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
  for (const std::string_view method : {"lookahead", "core"}) {
    PassLoopOptions options;
    options.pace = [](std::uint32_t rows) { return rows * 10ms; };
    open_method(method, false, options);
    HintingClient& client = start_run(prompt_);
    loop_->step();
    const auto before = loop_->count();
    expect_whole(client, expected_);
    EXPECT_EQ(rows_since(before), loop_->count().passes - before.passes);
  }
}

TEST_F(ProbingRunsTest, RarelyProbesIfManySessionsSharePass) {
  const auto rows_a_token = [&](std::size_t count) {
    open_method("core");
    std::vector<HintingClient*> clients;
    for (std::size_t i = 0; i < count; ++i) clients.push_back(&start_run(prompt_of(i % 8)));
    while (std::ranges::any_of(clients, [](HintingClient* c) { return c->verdicts.empty(); })) {
      loop_->step();
      for (HintingClient* client : clients) client->listen();
    }
    const auto before = loop_->count();
    std::uint64_t tokens = 0;
    for (std::size_t i = 0; i < count; ++i) {
      expect_whole(*clients[i], plain(prompt_of(i % 8)));
      tokens += clients[i]->answer().size();
    }
    return static_cast<double>(rows_since(before)) / static_cast<double>(tokens);
  };
  EXPECT_GT(rows_a_token(1), 15.0);
  EXPECT_LT(rows_a_token(40), 3.0);
}

// A waiting session does not lose its memory to another session's probes.
TEST_F(ProbingRunsTest, ProbesEvictNoSession) {
  const auto evicted = [&](std::uint32_t probes) {
    open_with(probes, {.sessions = {.kv_bytes_max = SessionStore::session_bytes(parts())}});
    // Idle sessions hold the rest of the memory.
    const std::uint32_t pages = loop_->memory().pages;
    std::uint32_t idle_count = 0;
    Tokens long_prompt = prompt_of(2);
    long_prompt.resize(40, 7);
    while (loop_->memory().pages_held + 3 < pages) {
      long_prompt.back() = long_prompt.front() = 4 + idle_count++;
      start_run(long_prompt, {});
      run_until_idle();
      now_ += 10s;
    }
    HintingClient& client = start_run(prompt_, {.credit = 40});
    run_until_idle();
    client.listen();
    EXPECT_EQ(client.text().size(), 40u);
    const Tokens text = whole_text();
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
