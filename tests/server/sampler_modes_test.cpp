// Every sampler option with every way to speculate: the answer is the plain one, and no pair fails.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/proposers/drafter_proposer.h"
#include "server/proposers/probing_methods.h"
#include "shared/drafting/ngram/ngram_drafter.h"
#include "tests/server/run_rig.h"

namespace edgedraft::server {
namespace {

struct SamplerOption {
  const char* name;
  SamplingParams sampling{};
  Constraints constraints{};
  std::uint8_t logprobs = 0;
};

// Hints that the device sends during the run.
enum class Sent { nothing, right, wrong };

class SamplerModesTest : public RunTest {
 protected:
  SamplerModesTest() {
    std::vector<std::string> texts(kToyVocabulary);
    for (std::uint32_t t = 3; t < kToyVocabulary; ++t) {
      texts[t] = static_cast<char>('a' + (t - 3) % 26);
    }
    texts_ = std::make_shared<const TokenTexts>(std::move(texts), Tokens{kToyEndToken},
                                                /*adds_space_prefix=*/false);
  }

  static std::vector<SamplerOption> options() {
    const SamplingParams warm{.temperature = 0.9f, .seed = 7};
    const auto sampled = [&](auto change) {
      SamplingParams sampling = warm;
      change(sampling);
      return sampling;
    };
    std::vector<SamplerOption> all = {
        {.name = "greedy"},
        {.name = "temperature", .sampling = warm},
        {.name = "top_k", .sampling = sampled([](SamplingParams& s) { s.top_k = 3; })},
        {.name = "top_p", .sampling = sampled([](SamplingParams& s) { s.top_p = 0.7f; })},
        {.name = "min_p", .sampling = sampled([](SamplingParams& s) { s.min_p = 0.05f; })},
        {.name = "presence_penalty", .sampling = warm, .constraints = {.presence_penalty = 1.5f}},
        {.name = "frequency_penalty", .constraints = {.frequency_penalty = 0.7f}},
        {.name = "biases",
         .sampling = warm,
         .constraints = {.biases = {{.token = 9, .bias = 4.0f}, {.token = 2, .bias = -50.0f}}}},
        {.name = "stops", .sampling = warm, .constraints = {.stops = {"ab", "q", "mn"}}},
        {.name = "grammar", .constraints = {.grammar = "root ::= ([a-m] [n-z]){5,20}"}},
        {.name = "logprobs", .sampling = warm, .logprobs = 3},
        {.name = "all",
         .sampling = sampled([](SamplingParams& s) {
           s.top_k = 20;
           s.top_p = 0.9f;
           s.min_p = 0.001f;
         }),
         .constraints = {.stops = {"zz"},
                         .biases = {{.token = 9, .bias = 1.0f}},
                         .presence_penalty = 0.3f,
                         .frequency_penalty = 0.3f,
                         .grammar = "root ::= [a-z]{1,40}"},
         .logprobs = 2},
    };
    for (SamplerOption& option : all) option.constraints.answer_begin = kPromptCount;
    return all;
  }

  // The answer to the prompt under that option.
  Tokens answer(const SamplerOption& option, wire::Hold hold, Sent sent, const Tokens& expected) {
    const wire::RunTerms run{
        .credit = kPromptCount + 40, .hold = hold, .logprobs = option.logprobs};
    HintingClient& client = connect();
    EXPECT_TRUE(client.begin(prompt_, option.sampling, run, option.constraints));
    std::size_t values = 0;
    for (int step = 0; step < 4000; ++step) {
      const std::size_t heard = client.verdicts.size();
      const bool goes_on = client.listen();
      for (std::size_t i = heard; i < client.verdicts.size(); ++i) {
        values += client.verdicts[i].logprobs.size();
        hinted_ += client.verdicts[i].hinted;
        drafted_ += client.verdicts[i].drafted;
      }
      if (!goes_on || client.text().size() >= run.credit) break;
      if (!client.verdicts.empty() && heard < client.verdicts.size()) {
        Tokens follows = sent == Sent::nothing ? Tokens() : right(client, expected, 4);
        if (sent == Sent::wrong && !follows.empty()) follows.back() = kToyEndToken;
        if (hold == wire::Hold::lockstep) {
          EXPECT_TRUE(client.complete(follows));
        } else if (!follows.empty()) {
          EXPECT_TRUE(client.send(client.chain(follows)));
        }
      }
      if (loop_->idle()) now_ += 50ms;
      loop_->step();
    }
    EXPECT_EQ(values > 0, option.logprobs > 0);
    return client.answer();
  }

  void open_with(const std::optional<ProposerSource>& source) {
    clients_.clear();
    loop_.reset();
    speculation_.reset();
    if (source) speculation_.emplace(*source, SpeculationOptions{.context_count = kContext});
    open({.speculation = speculation_ ? &*speculation_ : nullptr, .metrics = metrics_});
    loop_->measure_costs(1s);
  }

  std::optional<Speculation> speculation_;
  // Nodes in passes so far.
  std::uint64_t hinted_ = 0;
  std::uint64_t drafted_ = 0;
};

TEST_F(SamplerModesTest, EverySamplerOptionWithEverySpeculationModeGivesPlainAnswer) {
  const std::vector<SamplerOption> all = options();
  std::vector<Tokens> plain;
  open_with(std::nullopt);
  for (const SamplerOption& option : all) {
    plain.push_back(answer(option, wire::Hold::none, Sent::nothing, {}));
    EXPECT_GT(plain.back().size(), 1u) << option.name;
  }
  EXPECT_NE(plain[0], plain[1]);

  std::vector<std::pair<std::string, std::optional<ProposerSource>>> servers;
  servers.emplace_back("no drafts of the server", std::nullopt);
  for (const ProbingMethodKind& method : probing_methods()) {
    servers.emplace_back(method.name, probing_source(method, testing::is_toy_end, [] {
                           return std::make_unique<DrafterProposer>(DrafterProposer::Parts{
                               .drafter = std::make_unique<NgramDrafter>(adaptive_tree, kContext),
                               .tap = nullptr,
                               .positions_max = kContext});
                         }));
  }
  for (const auto& [name, source] : servers) {
    open_with(source);
    hinted_ = drafted_ = 0;
    for (const wire::Hold hold : {wire::Hold::none, wire::Hold::economy, wire::Hold::lockstep}) {
      for (const Sent sent : {Sent::nothing, Sent::right, Sent::wrong}) {
        for (std::size_t i = 0; i < all.size(); ++i) {
          EXPECT_EQ(answer(all[i], hold, sent, plain[i]), plain[i])
              << all[i].name << " with " << name << ", hold " << static_cast<int>(hold)
              << ", hints " << static_cast<int>(sent);
          clients_.clear();
        }
      }
    }
    EXPECT_GT(hinted_, 0u) << name;
    EXPECT_EQ(drafted_ > 0, source.has_value()) << name;
  }
}

}  // namespace
}  // namespace edgedraft::server
