#include "client/engine/bundle_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shared/drafting/bundle_conversion.h"
#include "shared/model/fingerprint.h"
#include "tests/model/hf_directory.h"

namespace edgedraft {
namespace {

using test::HfDirectory;

// A target and an independent drafter for it, converted from the same small checkpoint.
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
  ASSERT_FALSE(bundle);
  EXPECT_EQ(bundle.error().code, code) << bundle.error().message;
  EXPECT_NE(bundle.error().message.find(path.string()), std::string::npos)
      << bundle.error().message;
}

TEST_F(BundleFileTest, SaysWhoItIsOnTheLink) {
  const auto bundle = BundleFile::open(bundle_path(), BundleUse::draft);
  ASSERT_TRUE(bundle) << bundle.error().message;
  const GgufFile target = GgufFile::open(target_path()).value();
  const GgufFile file = GgufFile::open(bundle_path()).value();
  EXPECT_EQ(bundle->hello().target, model_fingerprint(target).value());
  EXPECT_EQ(bundle->hello().tokenizer, tokenizer_fingerprint(target).value());
  EXPECT_EQ(bundle->hello().drafter, model_fingerprint(file).value());
  EXPECT_EQ(bundle->hello().drafter_name, "drafter-small");
  EXPECT_EQ(bundle->drafter_kind(), "independent");
  EXPECT_EQ(bundle->context_count(), 128u);
}

TEST_F(BundleFileTest, MakesItsDrafter) {
  const auto backend = make_reference_backend();
  const auto bundle = BundleFile::open(bundle_path(), BundleUse::draft);
  ASSERT_TRUE(bundle);
  const auto drafter = bundle->make_drafter(*backend);
  EXPECT_NE(drafter, nullptr);
}

TEST_F(BundleFileTest, PlainUseTakesAnyFileWithTheTokenizer) {
  const auto backend = make_reference_backend();
  for (const auto& path : {target_path(), bundle_path()}) {
    const auto bundle = BundleFile::open(path, BundleUse::plain);
    ASSERT_TRUE(bundle) << bundle.error().message;
    EXPECT_EQ(bundle->context_count(), 0u);
    const auto drafter = bundle->make_drafter(*backend);
    EXPECT_EQ(drafter, nullptr);
  }
}

TEST_F(BundleFileTest, EncodesTextsAndConversations) {
  const auto bundle = BundleFile::open(bundle_path(), BundleUse::plain);
  ASSERT_TRUE(bundle);
  const auto raw = bundle->encode_raw("the cat");
  ASSERT_FALSE(raw.empty());
  EXPECT_EQ(raw.front(), 1u) << "the beginning of a text";
  EXPECT_TRUE(std::ranges::equal(std::span(raw).subspan(1),
                                 bundle->tokenizer().encode("the cat", Special::plain)));

  const ChatMessage message{.role = "user", .content = "the cat"};
  const auto own = bundle->chat_template({});  // the directory's: the first message's text
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(bundle->encode_chat(*own, std::span(&message, 1)).value(),
            bundle->tokenizer().encode("the cat", Special::parse));
  const auto path = directory_.write("chat.jinja", "{{ bos_token }}{{ messages[0].role }}<|end|>");
  const auto other = bundle->chat_template(path);
  ASSERT_TRUE(other) << other.error().message;
  const auto tokens = bundle->encode_chat(*other, std::span(&message, 1)).value();
  EXPECT_EQ(tokens.front(), 1u);
  EXPECT_EQ(tokens.back(), 259u) << "a control token";
}

TEST_F(BundleFileTest, NamesTheFileThatIsNone) {
  expect_error(directory_ / "missing.gguf", BundleUse::draft, Errc::io);
  expect_error(directory_.write("text.gguf", "hello there"), BundleUse::draft, Errc::bad_file);
  const auto bundle = BundleFile::open(bundle_path(), BundleUse::plain);
  ASSERT_TRUE(bundle);
  const auto bad = bundle->chat_template(directory_.write("bad.jinja", "{% for %}"));
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("bad.jinja"), std::string::npos);
}

// A tokenizer alone serves plain decoding, but drafts nothing.
TEST_F(BundleFileTest, ATokenizerAloneIsNoDrafter) {
  test::RawGguf raw;
  raw.add_string("general.architecture", "gemma");
  test::TinyVocabulary().add_to(raw);
  const auto path = directory_.write("tokenizer.gguf", raw.bytes());
  EXPECT_TRUE(BundleFile::open(path, BundleUse::plain));
  expect_error(path, BundleUse::draft, Errc::unsupported);
}

}  // namespace
}  // namespace edgedraft
