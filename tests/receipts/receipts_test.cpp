#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/engine/bundle_file.h"
#include "client/generation/generation.h"
#include "client/receipts/answer_check.h"
#include "client/receipts/receipt_file.h"
#include "shared/net/client_link.h"
#include "shared/net/link_plug.h"
#include "shared/net/receipt_signature.h"
#include "shared/runtime/backend.h"
#include "tests/support/expect.h"
#include "tests/support/loopback_server.h"

namespace edgedraft::client {
namespace {

using namespace std::chrono_literals;
using testing::LoopbackServer;

constexpr const char* kDrafter = EDGEDRAFT_MODELS "/independent.gguf";
constexpr std::uint32_t kTokens = 16;

std::unique_ptr<LoopbackServer> start_server() {
  return LoopbackServer::start(
             {.model = EDGEDRAFT_MODELS "/target.gguf", .bundles = {kDrafter}, .sessions_max = 4})
      .value();
}

// Pulls the plug after some verified tokens, until the drafter has written some offline.
class Outage final : public GenerationObserver {
 public:
  explicit Outage(LinkPlug& plug) : plug_(plug) {}
  void begin(bool breaks) {
    is_due_ = breaks;
    offline_count_ = 0;
  }
  std::uint32_t offline_count() const { return offline_count_; }

  void on_token(std::uint32_t, Provenance provenance) override {
    if (provenance == Provenance::offline && ++offline_count_ == 2) plug_.put(true);
    if (provenance == Provenance::verified && std::exchange(is_due_, false)) plug_.put(false);
  }
  void on_confirmed(std::uint32_t, std::uint32_t) override {}
  void on_kept(std::uint32_t) override {}
  void on_rewrite(std::uint32_t) override {}
  void on_state(ClientState, const std::string&) override {}

 private:
  LinkPlug& plug_;
  bool is_due_ = false;
  std::uint32_t offline_count_ = 0;
};

// A server that answers and signs, and another that replays.
class ReceiptsTest : public ::testing::Test {
 protected:
  ReceiptsTest() {
    ClientLinkOptions options = first_->link_options(bundle_);
    options.plug = &plug_;
    link_ = ClientLink::open(std::move(options)).value();
    generation_.emplace(
        GenerationParts{.link = *link_,
                        .drafter = drafter_.get(),
                        .observer = outage_,
                        .is_end = [this](auto t) { return bundle_.tokenizer().is_end(t); },
                        .now = [] { return Clock::now(); }},
        GenerationOptions{.tree = chain_shape(3),
                          .tokens_max = kTokens,
                          .context_count = bundle_.context_count(),
                          .sampling = {},
                          .deadline = 20s,
                          .resync = wire::ResyncPolicy::check,
                          .resync_wait = 20s});
  }

  static Result<std::string> signer_of(const Receipt& receipt) {
    return check_receipt(receipt.certificate, as_byte_view(receipt.statement()), receipt.signature);
  }

  Result<CheckedAnswer> replay(const Receipt& receipt) {
    const auto link = ClientLink::open(second_->link_options(bundle_)).value();
    return check_answer(*link, receipt, false, 30s);
  }

  Receipt answer(const std::string& text, const SamplingParams& sampling, bool breaks = false) {
    Receipt receipt{.sampling = sampling, .prompt = bundle_.encode_raw(text)};
    outage_.begin(breaks);
    generation_->set({.tokens_max = kTokens, .sampling = sampling});
    generation_->begin(receipt.prompt);
    while (!generation_->over()) generation_->go_on(link_->wait_event(generation_->wait_end()));
    plug_.put(true);
    const auto end = generation_->end();
    EXPECT_TRUE(end) << end.error().message;
    const auto tokens = generation_->ledger().tokens().subspan(generation_->answer_first());
    receipt.answer.assign(tokens.begin(), tokens.end());
    return receipt;
  }

  Receipt signed_answer(const std::string& text, const SamplingParams& sampling,
                        bool breaks = false) {
    Receipt receipt = answer(text, sampling, breaks);
    const auto link = ClientLink::open(first_->link_options(bundle_)).value();
    const auto is_signed = sign_answer(*link, receipt, 30s);
    EXPECT_TRUE(is_signed) << is_signed.error().message;
    return receipt;
  }

  BundleFile bundle_ = BundleFile::open(kDrafter, BundleUse::draft).value();
  std::unique_ptr<LoopbackServer> first_ = start_server();
  std::unique_ptr<LoopbackServer> second_ = start_server();
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  std::unique_ptr<Drafter> drafter_ = bundle_.make_drafter(*backend_);
  LinkPlug plug_;
  Outage outage_{plug_};
  std::unique_ptr<TargetLink> link_;
  std::optional<Generation> generation_;
};

TEST_F(ReceiptsTest, AnotherReplicaConfirmsAnswersGreedySampledAndThroughOutages) {
  std::uint32_t outages = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    SamplingParams sampling{.seed = i};
    if (i % 2 == 1) sampling = {.temperature = 0.9f, .top_k = 40, .top_p = 0.95f, .seed = i};
    const Receipt receipt = signed_answer("Story " + std::to_string(i) + ": once upon a time",
                                          sampling, i % 10 == 3 || i % 10 == 4);
    if (outage_.offline_count() > 0) ++outages;
    ASSERT_TRUE(signer_of(receipt));
    const auto replayed = replay(receipt);
    ASSERT_TRUE(replayed) << replayed.error().message;
    EXPECT_FALSE(replayed->difference);
  }
  EXPECT_GE(outages, 10u);
}

TEST_F(ReceiptsTest, EachChangeBreaksTheSignature) {
  const Receipt receipt = signed_answer("Once upon a time", {.temperature = 0.8f, .seed = 7});
  ASSERT_TRUE(signer_of(receipt));
  ASSERT_GT(receipt.answer.size(), 1u);
  std::vector<std::function<void(Receipt&)>> changes{
      [](Receipt& r) { r.target[0] ^= std::byte{1}; },
      [](Receipt& r) { r.arithmetic += "x"; },
      [](Receipt& r) { ++r.sampling.seed; },
      [](Receipt& r) { r.sampling.temperature = 0.81f; },
      [](Receipt& r) { r.sampling.top_k = 5; },
      [](Receipt& r) { r.sampling.top_p = 0.99f; },
      [](Receipt& r) { r.sampling.min_p = 0.01f; },
      [](Receipt& r) { r.constraints.stops = {"x"}; },
      [](Receipt& r) { r.signature.back() ^= std::byte{1}; },
      [](Receipt& r) {
        r.answer.pop_back();
        r.provenance.pop_back();
      },
      [](Receipt& r) {
        r.answer.insert(r.answer.begin(), r.prompt.back());
        r.provenance.insert(r.provenance.begin(), Attested::checked);
        r.prompt.pop_back();
      }};
  for (std::size_t i = 0; i < receipt.prompt.size(); ++i) {
    changes.push_back([i](Receipt& r) { r.prompt[i] ^= 1; });
  }
  for (std::size_t i = 0; i < receipt.answer.size(); ++i) {
    changes.push_back([i](Receipt& r) { r.answer[i] ^= 1; });
    changes.push_back([i](Receipt& r) {
      r.provenance[i] = r.provenance[i] == Attested::checked ? Attested::chosen : Attested::checked;
    });
  }
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Receipt changed = receipt;
    changes[i](changed);
    EXPECT_TRUE(fails_with(signer_of(changed), Errc::untrusted, "does not match")) << i;
  }
}

TEST_F(ReceiptsTest, ReplayTellsWhereTheAnswerDiffersFirst) {
  const Receipt receipt = signed_answer("Once upon a time", {.temperature = 0.8f, .seed = 7});
  for (std::size_t i = 0; i < receipt.answer.size(); ++i) {
    Receipt changed = receipt;
    changed.answer[i] ^= 1;
    const auto replayed = replay(changed);
    ASSERT_TRUE(replayed) << replayed.error().message;
    ASSERT_TRUE(replayed->difference);
    EXPECT_EQ(replayed->difference->index, i);
    EXPECT_EQ(replayed->difference->chosen, receipt.answer[i]);
  }
}

TEST_F(ReceiptsTest, ServerSignsNoAnswerThatItWouldNotGive) {
  Receipt receipt = answer("Once upon a time", {});
  receipt.answer[1] ^= 1;
  const auto link = ClientLink::open(first_->link_options(bundle_)).value();
  EXPECT_TRUE(fails_with(sign_answer(*link, receipt, 30s), Errc::mismatch, "at 2 of the answer"));
}

TEST_F(ReceiptsTest, FileHoldsTheWholeReceipt) {
  Receipt receipt = signed_answer("Once upon a time", {.temperature = 0.7f, .seed = 3});
  receipt.constraints = {.answer_begin = 4,
                         .stops = {"\n", "é"},
                         .biases = {{.token = 5, .bias = -0.3f}},
                         .presence_penalty = 0.1f,
                         .grammar = "root ::= \"a\""};
  EXPECT_EQ(parse_receipt(to_json(receipt)).value(), receipt);
  std::string damaged = to_json(receipt);
  damaged.replace(damaged.find("\"checked\""), 9, "\"offline\"");
  EXPECT_TRUE(fails_with(parse_receipt(damaged), Errc::bad_file, "provenance"));
  EXPECT_TRUE(fails_with(parse_receipt("{}"), Errc::bad_file, "not a receipt"));
}

}  // namespace
}  // namespace edgedraft::client
