// A kind of drafter defined in this folder only. Converted into a bundle, loaded by the server and
// opened by the client, it drafts on the device and beside the target. Answers equal the target's.
#include "tests/drafting/random_kind/random_kind.h"

#include <gtest/gtest.h>

#include <vector>

#include "client/engine/bundle_file.h"
#include "server/passes/pass_loop.h"
#include "server/program/model_host.h"
#include "server/proposers/speculation.h"
#include "shared/drafting/bundle_conversion.h"
#include "shared/drafting/kinds.h"
#include "tests/drafting/damaged_bundle.h"
#include "tests/model/hf_directory.h"
#include "tests/server/plain_answer.h"
#include "tests/support/drafted_answer.h"
#include "tests/support/expect.h"

namespace edgedraft {
using namespace client;
using namespace server;
namespace {

using testing::kRandomKind;
using testing::random_kind_rows;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kTokensMax = 40;
constexpr TreeShape kShape{.breadth = 4, .depth = 4, .nodes = 16};

class Reader final : public Replies {
 public:
  void verdict(wire::Verdict verdict) override {
    tokens.insert(tokens.end(), verdict.tokens.begin(), verdict.tokens.end());
    tokens.push_back(verdict.next);
  }
  void activations(wire::Activations) override {}
  void refuse(std::uint32_t, Error error) override { ADD_FAILURE() << error.message; }
  bool full() const override { return false; }

  Tokens tokens;
};

class RandomKindTest : public ::testing::TestWithParam<float> {
 protected:
  static void SetUpTestSuite() {
    if (find_drafter_kind(kRandomKind.name) == nullptr) add_drafter_kind(kRandomKind);
  }

  RandomKindTest() {
    test::HfDirectory source;
    source.write(source_);
    source.write_tokenizer(source_);
    EXPECT_TRUE(
        convert_model({.input = source_.path(), .output = target_path(), .type = DType::f16}));
    const auto made = make_bundle(
        {.target = target_path(), .drafter = kRandomKind.name, .output = bundle_path()});
    EXPECT_TRUE(made) << made.error().message;
    auto host = ModelHost::load(*backend_, {.model = target_path(), .bundles = {bundle_path()}});
    EXPECT_TRUE(host) << host.error().message;
    host_ = std::move(*host);
  }

  std::filesystem::path target_path() const { return directory_ / "target.gguf"; }
  std::filesystem::path bundle_path() const { return directory_ / "bundle.gguf"; }
  bool is_end(std::uint32_t token) const { return host_->tokenizer().is_end(token); }

  Tokens plain() {
    return testing::plain_answer({.decoder = host_->decoder(),
                                  .context_count = host_->context_count(),
                                  .is_end = [this](std::uint32_t t) { return is_end(t); }},
                                 prompt_, kTokensMax, sampling_);
  }

  test::TemporaryDirectory source_;
  test::TemporaryDirectory directory_;
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  std::unique_ptr<ModelHost> host_;
  Tokens prompt_{5, 6, 7, 8, 9};
  SamplingParams sampling_{.temperature = GetParam(), .seed = 3};
};

TEST_P(RandomKindTest, DraftsOnDevice) {
  const auto bundle = BundleFile::open(bundle_path(), BundleUse::draft).value();
  EXPECT_EQ(bundle.drafter_kind(), kRandomKind.name);
  const HostedDrafter* hosted = host_->find_drafter(bundle.hello().drafter.value());
  ASSERT_NE(hosted, nullptr);
  EXPECT_EQ(host_->find_tap(bundle.hello()).value(), hosted->tap.get());

  const auto drafter = bundle.make_drafter(*backend_);
  const std::uint32_t rows_before = random_kind_rows();
  const auto answer = testing::drafted_answer(*host_, {.prompt = prompt_,
                                                       .tap = hosted->tap.get(),
                                                       .drafter = drafter.get(),
                                                       .tree = kShape,
                                                       .tokens_max = kTokensMax,
                                                       .sampling = sampling_})
                          .value();
  EXPECT_EQ(answer.tokens, plain());
  EXPECT_GT(answer.stats.drafted, 0u);
  EXPECT_GE(random_kind_rows() - rows_before, prompt_.size());
}

// Both sides compare a tap's name as a whole.
TEST_P(RandomKindTest, ServerReturnsNamedTapOrRefuses) {
  const auto bundle = BundleFile::open(bundle_path(), BundleUse::draft).value();
  const auto refusal = [&](const wire::Hello& hello) {
    const auto tap = host_->find_tap(hello);
    return tap ? std::string() : std::string(to_string(tap.error().code));
  };
  wire::Hello hello = bundle.hello();
  EXPECT_NE(host_->find_tap(hello).value(), nullptr);
  hello.tap += '2';
  EXPECT_EQ(refusal(hello), to_string(Errc::mismatch));
  hello.tap.clear();  // request tokens only
  EXPECT_EQ(host_->find_tap(hello).value(), nullptr);
  hello = bundle.hello();
  hello.drafter->front() ^= std::byte{1};
  EXPECT_EQ(refusal(hello), to_string(Errc::mismatch));
  hello.drafter.reset();
  EXPECT_EQ(refusal(hello), to_string(Errc::mismatch));
}

TEST_P(RandomKindTest, ServerRefusesTapWithTooWideRows) {
  const auto path = directory_ / "wide.gguf";
  const auto load = [&](std::uint32_t cols) {
    testing::write_damaged(GgufFile::open(bundle_path()).value(), path,
                           {.u32s = {{"random.columns", cols}}});
    return ModelHost::load(*backend_, {.model = target_path(), .bundles = {path}});
  };
  EXPECT_TRUE(load(kRowValuesMax));
  EXPECT_TRUE(fails_with(load(kRowValuesMax + 1), Errc::unsupported, path.string()));
}

TEST_P(RandomKindTest, DraftsOnServer) {
  Instant now{};
  const HostedDrafter& drafter = host_->drafters()[0];
  Speculation speculation(
      drafter_source(*backend_, *drafter.model, drafter.tap.get(), host_->context_count()),
      {.tree = kShape,
       .context_count = host_->context_count(),
       .on_failure = [](const std::string& why) { ADD_FAILURE() << why; }});
  PassLoop loop(host_->session_parts(),
                {.sessions = {.sessions_max = 4, .kv_bytes_max = 0}, .speculation = &speculation},
                [&] { return now += std::chrono::microseconds(10); });
  const auto reader = std::make_shared<Reader>();
  const Client client{
      .connection_id = 1, .reply = reader, .session = {}, .identity = "someone", .tap = nullptr};
  const std::uint32_t rows_before = random_kind_rows();
  const auto credit = static_cast<std::uint32_t>(prompt_.size()) + kTokensMax;
  loop.begin(client,
             wire::Prefill{
                 .round = 1, .tokens = prompt_, .sampling = sampling_, .run = {.credit = credit}},
             now);
  while (!loop.idle()) loop.step();
  EXPECT_GT(random_kind_rows(), rows_before);
  EXPECT_EQ(speculation.bytes(), 1u);
  EXPECT_EQ(reader->tokens, plain());
}

INSTANTIATE_TEST_SUITE_P(GreedyAndSampled, RandomKindTest, ::testing::Values(0.0f, 1.0f));

}  // namespace
}  // namespace edgedraft
