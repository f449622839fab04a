#include "client/engine/bundle_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "server/program/model_host.h"
#include "shared/drafting/bundle_conversion.h"
#include "shared/model/fingerprint.h"
#include "tests/drafting/damaged_bundle.h"
#include "tests/drafting/wide_models.h"
#include "tests/model/hf_directory.h"
#include "tests/support/expect.h"
#include "tests/support/reference_backend.h"

namespace edgedraft::client {
using namespace server;
namespace {

using test::HfDirectory;
using testing::Damage;
using testing::write_damaged;

// A target and an independent drafter for it, converted from one small checkpoint.
class BundleFileTest : public ::testing::Test {
 protected:
  BundleFileTest() {
    HfDirectory source;
    source.write(source_);
    source.write_tokenizer(source_);
    EXPECT_TRUE(
        convert_model({.input = source_.path(), .output = target_path(), .type = DType::f16}));
    EXPECT_TRUE(make_bundle({.target = target_path(),
                             .drafter = source_.path(),
                             .output = bundle_path(),
                             .type = DType::f16}));
  }

  std::filesystem::path target_path() const { return directory_ / "target.gguf"; }
  std::filesystem::path bundle_path() const { return directory_ / "drafter-small.gguf"; }

  test::TemporaryDirectory source_;
  test::TemporaryDirectory directory_;
};

void expect_error(const std::filesystem::path& path, BundleUse use, Errc code) {
  const auto bundle = BundleFile::open(path, use);
  EXPECT_TRUE(fails_with(bundle, code, path.string()));
}

// Renders conversations with a ChatML template that has or lacks the role system.
class SystemMessageTest : public BundleFileTest {
 protected:
  std::string rendered(const std::string& of_system, std::vector<ChatMessage> messages) {
    const auto chat =
        ChatTemplate::parse("{% for m in messages %}{% if m.role == 'system' %}" + of_system +
                            "{% else %}[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}");
    const auto bundle = BundleFile::open(bundle_path(), BundleUse::plain);
    const auto text = bundle->render_chat(*chat, {.messages = messages});
    return text ? text->text() : text.error().message;
  }

  const std::string kDropped;
  const std::string kRefused = "{{ raise_exception('no system role') }}";
  const ChatMessage kBrief{.role = "system", .content = "Be brief."};
  const ChatMessage kHi{.role = "user", .content = "Hi"};
};

TEST_F(SystemMessageTest, JoinsUserMessageIfDroppedOrRefusedByTemplate) {
  for (const std::string& of_system : {kDropped, kRefused}) {
    EXPECT_EQ(rendered(of_system, {kBrief, kHi}), "[user]Be brief.\n\nHi");
    EXPECT_EQ(rendered(of_system, {kBrief, kBrief, kHi, kHi}),
              "[user]Be brief.\n\nBe brief.\n\nHi[user]Hi");
    // A user may send this text.
    EXPECT_EQ(rendered(of_system, {kBrief, {.role = "user", .content = "Be brief."}}),
              "[user]Be brief.\n\nBe brief.");
    const ChatMessage answer{.role = "assistant", .content = "Yes?"};
    EXPECT_EQ(rendered(of_system, {kHi, answer, kBrief}), "[user]Hi[assistant]Yes?[user]Be brief.");
    EXPECT_EQ(rendered(of_system, {kBrief, answer}), "[user]Be brief.[assistant]Yes?");
  }
}

TEST_F(SystemMessageTest, StaysInPlaceIfWrittenByTemplate) {
  EXPECT_EQ(rendered("<{{ m.content | trim }}>", {kBrief, kHi}), "<Be brief.>[user]Hi");
  // It may write only the first of several messages.
  EXPECT_EQ(rendered("{% if loop.first %}<{{ m.content }}>{% endif %}", {kBrief, kHi, kBrief, kHi}),
            "<Be brief.>[user]Hi[user]Be brief.\n\nHi");
  EXPECT_EQ(rendered(kRefused, {kHi}), "[user]Hi");
}

TEST_F(BundleFileTest, HelloHoldsFingerprintsAndDrafterName) {
  const auto bundle = BundleFile::open(bundle_path(), BundleUse::draft).value();
  const GgufFile target = GgufFile::open(target_path()).value();
  const GgufFile file = GgufFile::open(bundle_path()).value();
  EXPECT_EQ(bundle.hello().target, model_fingerprint(target).value());
  EXPECT_EQ(bundle.hello().tokenizer, tokenizer_fingerprint(target).value());
  EXPECT_EQ(bundle.hello().drafter, model_fingerprint(file).value());
  EXPECT_EQ(bundle.hello().drafter_name, "drafter-small");
  EXPECT_EQ(bundle.drafter_kind(), "independent");
  EXPECT_EQ(bundle.context_count(), 128u);
}

TEST_F(BundleFileTest, MakesDrafter) {
  const auto backend = make_reference_backend();
  const auto bundle = BundleFile::open(bundle_path(), BundleUse::draft);
  ASSERT_TRUE(bundle);
  const auto drafter = bundle->make_drafter(*backend);
  EXPECT_NE(drafter, nullptr);
}

TEST_F(BundleFileTest, PlainUseAcceptsAnyFileWithTokenizer) {
  const auto backend = make_reference_backend();
  for (const auto& path : {target_path(), bundle_path()}) {
    const auto bundle = BundleFile::open(path, BundleUse::plain).value();
    EXPECT_EQ(bundle.context_count(), 0u);
    const auto drafter = bundle.make_drafter(*backend);
    EXPECT_EQ(drafter, nullptr);
  }
}

TEST_F(BundleFileTest, EncodesTextsAndConversations) {
  const auto bundle = BundleFile::open(bundle_path(), BundleUse::plain);
  ASSERT_TRUE(bundle);
  const auto raw = bundle->encode_raw("the cat");
  ASSERT_FALSE(raw.empty());
  EXPECT_EQ(raw.front(), 1u) << "BOS token";
  EXPECT_TRUE(std::ranges::equal(std::span(raw).subspan(1),
                                 bundle->tokenizer().encode("the cat", Special::plain)));

  const ChatMessage message{.role = "user", .content = "the cat"};
  const auto own = bundle->chat_template({});  // the directory's: the first message's text
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(bundle->encode_chat(*own, std::span(&message, 1)).value(), raw)
      << "the model requires its BOS token before a chat too";
  const auto path = directory_.write("chat.jinja", "{{ bos_token }}{{ messages[0].role }}<|end|>");
  const auto other = bundle->chat_template(path).value();
  const auto tokens = bundle->encode_chat(other, std::span(&message, 1)).value();
  EXPECT_EQ(tokens.front(), 1u);
  EXPECT_EQ(tokens.back(), 259u) << "a control token";
}

TEST_F(BundleFileTest, NamesMissingOrMalformedFile) {
  expect_error(directory_ / "missing.gguf", BundleUse::draft, Errc::io);
  expect_error(directory_.write("text.gguf", "hello there"), BundleUse::draft, Errc::bad_file);
  const auto bundle = BundleFile::open(bundle_path(), BundleUse::plain);
  ASSERT_TRUE(bundle);
  const auto bad = bundle->chat_template(directory_.write("bad.jinja", "{% for %}"));
  ASSERT_FALSE(bad);
  EXPECT_TRUE(contains(bad.error().message, "bad.jinja"));
}

// A tokenizer alone serves plain decoding but cannot draft.
TEST_F(BundleFileTest, RefusesToDraftFromTokenizerAlone) {
  test::RawGguf raw;
  raw.add_string("general.architecture", "gemma");
  test::TinyVocabulary().add_to(raw);
  const auto path = directory_.write("tokenizer.gguf", raw.bytes());
  EXPECT_TRUE(BundleFile::open(path, BundleUse::plain));
  expect_error(path, BundleUse::draft, Errc::unsupported);
}

void expect_refused_by_server(const std::filesystem::path& target,
                              const std::filesystem::path& bundle, Errc code,
                              const std::string& named) {
  const auto backend = make_reference_backend();
  const auto host = ModelHost::load(*backend, {.model = target, .bundles = {bundle}});
  ASSERT_TRUE(fails_with(host, code)) << named;
  for (const std::string& part : {named, bundle.string()}) {
    EXPECT_TRUE(contains(host.error().message, part));
  }
}

// A bundle's fingerprint is text, which may survive damage to the sizes.
TEST_F(BundleFileTest, ServerRefusesSizesThatDifferFromTarget) {
  const std::filesystem::path demo = EDGEDRAFT_MODELS;
  const auto path = directory_ / "damaged.gguf";
  // The demo's target: 6 layers of width 384 with 2 key heads of 64, and 4,096 tokens.
  const auto expect_mismatch = [&](const char* drafter, const Damage& damage,
                                   const std::filesystem::path& target, const std::string& named) {
    write_damaged(GgufFile::open(demo / drafter).value(), path, damage);
    expect_refused_by_server(target, path, Errc::mismatch, named);
  };
  for (const char* drafter : {"moa-tli0.gguf", "eagle.gguf"}) {
    for (const std::uint32_t layers : {5u, 7u}) {
      expect_mismatch(drafter, {.u32s = {{"edgedraft.target.layer_count", layers}}},
                      demo / "target.gguf",
                      "layer count is " + std::to_string(layers) + "; this target's is 6");
    }
  }
  expect_mismatch("moa-tli0.gguf",
                  {.u32s = {{"edgedraft.target.head_count", 12},
                            {"edgedraft.target.head_count_kv", 4},
                            {"edgedraft.target.key_length", 32}}},
                  demo / "target.gguf", "number of key heads is 4; this target's is 2");

  // The fixture's target: a layer of width 32, and 300 tokens.
  const std::string fingerprint =
      to_hex(model_fingerprint(GgufFile::open(target_path()).value()).value());
  for (const char* drafter : {"moa-tli0.gguf", "eagle.gguf"}) {
    expect_mismatch(drafter,
                    {.u32s = {{"edgedraft.target.layer_count", 1}},
                     .strings = {{std::string(kTargetFingerprintKey), fingerprint}}},
                    target_path(), "width is 384; this target's is 32");
  }
  expect_mismatch("independent.gguf",
                  {.strings = {{std::string(kTargetFingerprintKey), fingerprint}}}, target_path(),
                  "vocabulary is 4096; this target's is 300");
}

TEST_F(BundleFileTest, BothSidesRefuseActivationRowsOverWireLimit) {
  const test::TemporaryDirectory folder;
  testing::wide_target().write(folder);
  testing::wide_target().write_tokenizer(folder);
  ASSERT_TRUE(convert_model({.input = folder.path(), .output = target_path(), .type = DType::f16}));
  const test::TemporaryDirectory drafter;
  testing::wide_moa(3).write(drafter);
  const auto made = make_bundle({.target = target_path(),
                                 .drafter = drafter.path(),
                                 .output = bundle_path(),
                                 .type = DType::f16});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(BundleFile::open(bundle_path(), BundleUse::draft));
  const auto backend = make_reference_backend();
  EXPECT_TRUE(ModelHost::load(*backend, {.model = target_path(), .bundles = {bundle_path()}}));

  const auto path = directory_ / "too-wide.gguf";
  write_damaged(GgufFile::open(bundle_path()).value(), path,
                {.u32s = {{"edgedraft.tli", 4}}, .copies = {{"tli.2.", "tli.3."}}});
  expect_error(path, BundleUse::draft, Errc::unsupported);
  EXPECT_TRUE(BundleFile::open(path, BundleUse::plain))
      << "the tokenizer still serves plain decoding";
  expect_refused_by_server(target_path(), path, Errc::unsupported, "33792 values");
}

}  // namespace
}  // namespace edgedraft::client
