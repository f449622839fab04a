#include "shared/model/sentencepiece_proto.h"

#include <gtest/gtest.h>

namespace edgedraft {
namespace {

SentencePieceModel some_model() {
  SentencePieceModel model;
  model.pieces = {{"<unk>", 0.0f, TokenType::unknown},
                  {"▁a", -1.5f, TokenType::normal},
                  {"<0x0A>", 0.0f, TokenType::byte},
                  {std::string(300, 'x'), -2.0f, TokenType::user_defined}};
  model.algorithm = SentencePieceModel::Algorithm::bpe;
  model.byte_fallback = true;
  model.add_dummy_prefix = false;
  model.remove_extra_whitespaces = false;
  model.bos_id = -1;
  model.eos_id = 3;
  return model;
}

TEST(SentencePieceProtoTest, RoundTripsModel) {
  const std::string bytes = encode_sentencepiece_model(some_model());
  const auto model = decode_sentencepiece_model(as_byte_view(bytes));
  ASSERT_TRUE(model);
  ASSERT_EQ(model->pieces.size(), 4u);
  EXPECT_EQ(model->pieces[1].text, "▁a");
  EXPECT_EQ(model->pieces[1].score, -1.5f);
  EXPECT_EQ(model->pieces[2].type, TokenType::byte);
  EXPECT_EQ(model->pieces[3].text.size(), 300u);
  EXPECT_EQ(model->algorithm, SentencePieceModel::Algorithm::bpe);
  EXPECT_TRUE(model->byte_fallback);
  EXPECT_FALSE(model->add_dummy_prefix);
  EXPECT_FALSE(model->remove_extra_whitespaces);
  EXPECT_EQ(model->bos_id, -1);
  EXPECT_EQ(model->eos_id, 3);
}

// A message cut between two fields is still valid, so only some cuts are errors. None may read past
// the end.
TEST(SentencePieceProtoTest, SurvivesTruncationAndChanges) {
  const std::string whole = encode_sentencepiece_model(some_model());
  for (std::size_t count = 0; count < whole.size(); ++count) {
    const Bytes part(as_byte_view(whole).begin(),
                     as_byte_view(whole).begin() + static_cast<std::ptrdiff_t>(count));
    const auto model = decode_sentencepiece_model(part);
    if (model) {
      EXPECT_LE(model->pieces.size(), 4u);
    }
  }
  std::string changed = whole;
  changed[1] = '\xFF';  // the first piece's length
  EXPECT_FALSE(decode_sentencepiece_model(as_byte_view(changed)));
}

TEST(SentencePieceProtoTest, RefusesInvalidModels) {
  EXPECT_FALSE(decode_sentencepiece_model({}));
  EXPECT_FALSE(decode_sentencepiece_model(as_byte_view("hello, world")));
}

}  // namespace
}  // namespace edgedraft
