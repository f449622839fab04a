#include "shared/model/gguf_parts.h"

#include <gtest/gtest.h>

#include "shared/model/convert/convert.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/fingerprint.h"
#include "tests/model/raw_decoder.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft {
namespace {

using test::RawGguf;

TEST(GgufPartNameTest, ParsesNumberAndCount) {
  const auto part = gguf_part_named("models/big-q4_k-00002-of-00013.gguf");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->beginning, "models/big-q4_k");
  EXPECT_EQ(part->number, 2u);
  EXPECT_EQ(part->count, 13u);
  EXPECT_EQ(part->path_of(13), "models/big-q4_k-00013-of-00013.gguf");
}

TEST(GgufPartNameTest, OtherNamesAreWholeModels) {
  for (const char* name :
       {"big.gguf", "-00001-of-00002.gguf", "big-00003-of-00002.gguf", "big-00000-of-00002.gguf",
        "big-0001-of-0002.gguf", "big-+0001-of-00002.gguf", "big-    1-of-00002.gguf",
        "big-00001-of-00002.GGUF", "big-00001-of-00002.gguf.part", "big-00001_of-00002.gguf", ""}) {
    EXPECT_FALSE(gguf_part_named(name)) << name;
    EXPECT_EQ(gguf_files_of(name), (std::vector<std::filesystem::path>{name}));
  }
}

// raw_decoder in three files: metadata only, then the tensors in two halves.
class GgufPartsTest : public ::testing::Test {
 protected:
  GgufPartsTest() {
    const RawGguf whole = test::raw_decoder();
    const std::size_t half = whole.tensors.size() / 2;
    for (std::size_t i = 0; i < 3; ++i) {
      RawGguf& part = parts_[i];
      if (i == 0) part.values = whole.values;
      part.add_u32("split.no", static_cast<std::uint32_t>(i));
      part.add_u32("split.count", 3);
      part.add_u32("split.tensors.count", static_cast<std::uint32_t>(whole.tensors.size()));
    }
    parts_[1].tensors.assign(whole.tensors.begin(), whole.tensors.begin() + half);
    parts_[2].tensors.assign(whole.tensors.begin() + half, whole.tensors.end());
    parts_[1].data = parts_[2].data = whole.data;
    whole_ = whole.bytes();
    for (std::size_t i = 0; i < 3; ++i) write(i);
  }

  std::filesystem::path path(std::size_t index) const {
    return folder_ / ("m-0000" + std::to_string(index + 1) + "-of-00003.gguf");
  }
  void write(std::size_t index) {
    folder_.write(path(index).filename().string(), parts_[index].bytes());
  }

  void expect_error(Errc code, const std::string& words) const {
    const auto file = GgufFile::open(path(0));
    ASSERT_TRUE(fails_with(file, code, words));
  }

  test::TemporaryDirectory folder_;
  RawGguf parts_[3];
  Bytes whole_;
};

TEST_F(GgufPartsTest, AnyPartOpensModel) {
  const auto whole = GgufFile::parse(whole_);
  ASSERT_TRUE(whole);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto file = GgufFile::open(path(i)).value();
    ASSERT_TRUE(read_decoder(file));
    EXPECT_EQ(compute_model_fingerprint(file), compute_model_fingerprint(*whole));
    for (const GgufTensor& tensor : whole->tensors()) {
      const GgufTensor* same = file.find_tensor(tensor.name);
      ASSERT_NE(same, nullptr) << tensor.name;
      EXPECT_TRUE(std::ranges::equal(same->bytes, tensor.bytes)) << tensor.name;
    }
  }
}

TEST_F(GgufPartsTest, ConvertJoinsParts) {
  const auto output = folder_ / "one.gguf";
  const auto converted = convert_model({.input = path(0), .output = output});
  ASSERT_TRUE(converted) << converted.error().message;
  const auto file = GgufFile::open(output).value();
  EXPECT_EQ(file.find_value("split.count"), nullptr);
  EXPECT_EQ(compute_model_fingerprint(file),
            compute_model_fingerprint(GgufFile::parse(whole_).value()));
}

TEST_F(GgufPartsTest, NamesMissingPart) {
  std::filesystem::remove(path(1));
  expect_error(Errc::io, path(1).string());
  expect_error(Errc::io, "3 files");
}

TEST_F(GgufPartsTest, NamesDamagedPart) {
  parts_[2].data.resize(40);
  write(2);
  expect_error(Errc::bad_file, path(2).string());
}

TEST_F(GgufPartsTest, ChecksPartNames) {
  const auto renamed = folder_ / "m.gguf";
  std::filesystem::copy_file(path(0), renamed);
  const auto file = GgufFile::open(renamed);
  EXPECT_TRUE(fails_with(file, Errc::bad_file, "NAME-00001-of-00003.gguf"));

  std::filesystem::rename(path(1), folder_ / "other");
  std::filesystem::rename(path(2), path(1));
  std::filesystem::rename(folder_ / "other", path(2));
  expect_error(Errc::bad_file, "by its name this is file 2 of 3, by its metadata 3 of 3");
}

TEST_F(GgufPartsTest, RequiresEachTensorOnce) {
  RawGguf& last = parts_[2];
  last.tensors.pop_back();
  write(2);
  expect_error(Errc::bad_file, "tensors instead of");
  last.tensors.push_back(parts_[1].tensors[0]);
  write(2);
  expect_error(Errc::bad_file, "token_embd.weight is also in an earlier file");
}

}  // namespace
}  // namespace edgedraft
