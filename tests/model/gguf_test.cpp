#include "shared/model/gguf.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>

#include "shared/model/mapped_file.h"
#include "tests/model/raw_gguf.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft {
namespace {

using test::ByteWriter;
using test::RawGguf;

// Two tensors: a [3, 2] f32 matrix at offset 0 and a row of one q8_0 block at 32.
RawGguf small_file() {
  RawGguf file;
  file.add_string("general.architecture", "test");
  file.add_u32("count", 7);
  file.add_numbers<float>("numbers", 6, {1.5f, -2.0f});
  file.add_strings("texts", {"a", "", "bc"});
  file.tensors = {{"matrix", {2, 3}, 0, 0}, {"block", {32}, 8, 32}};
  file.data = Bytes(32 + 34);
  for (std::size_t i = 0; i < 6; ++i) store_le(&file.data[4 * i], static_cast<float>(i));
  return file;
}

Error parse_error(const RawGguf& file) {
  const Bytes bytes = file.bytes();
  const auto read = GgufFile::parse(bytes);
  EXPECT_FALSE(read.has_value());
  return read ? Error{} : read.error();
}

void expect_bad(const RawGguf& file, const std::string& words) {
  const Error error = parse_error(file);
  EXPECT_EQ(error.code, Errc::bad_file);
  EXPECT_TRUE(contains(error.message, words));
}

TEST(GgufTest, ReadsMetadataAndTensorsInFileOrder) {
  const Bytes bytes = small_file().bytes();
  const auto file = GgufFile::parse(bytes).value();
  EXPECT_EQ(*file.architecture(), "test");
  EXPECT_EQ(*file.get_u32("count"), 7u);
  EXPECT_EQ(*file.get_f32s("numbers"), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(*file.get_strings("texts"), (std::vector<std::string_view>{"a", "", "bc"}));
  ASSERT_EQ(file.tensors().size(), 2u);
  const GgufTensor& matrix = file.tensors()[0];
  EXPECT_EQ(matrix.name, "matrix");
  EXPECT_EQ(matrix.cols(), 2u);
  EXPECT_EQ(matrix.rows(), 3u);
  EXPECT_EQ(load_le<float>(&matrix.bytes[5 * 4]), 5.0f);
  EXPECT_EQ(file.find_tensor("block")->type, DType::q8_0);
  EXPECT_EQ(file.find_tensor("block")->bytes.size(), 34u);
  EXPECT_EQ(file.find_tensor("none"), nullptr);
}

template <class T>
void expect_integer(std::uint32_t type, T value, std::uint32_t expected) {
  RawGguf file;
  file.values.emplace_back("key", ByteWriter().number(type).number(value).bytes());
  const Bytes bytes = file.bytes();
  const auto read = GgufFile::parse(bytes);
  ASSERT_TRUE(read);
  ASSERT_TRUE(read->get_u32("key")) << "type " << type;
  EXPECT_EQ(*read->get_u32("key"), expected);
}

TEST(GgufTest, ReadsIntegersOfEveryWidth) {
  expect_integer<std::uint8_t>(0, 200, 200);
  expect_integer<std::int8_t>(1, 100, 100);
  expect_integer<std::uint16_t>(2, 60000, 60000);
  expect_integer<std::int16_t>(3, 30000, 30000);
  expect_integer<std::uint32_t>(4, 4000000000u, 4000000000u);
  expect_integer<std::int32_t>(5, 5, 5);
  expect_integer<std::uint64_t>(10, 6, 6);
  expect_integer<std::int64_t>(11, 7, 7);
}

TEST(GgufTest, RefusesIntegersThatDoNotFit) {
  RawGguf file;
  file.values.emplace_back(
      "big", ByteWriter().number(std::uint32_t{10}).number(~std::uint64_t{0}).bytes());
  file.values.emplace_back("negative",
                           ByteWriter().number(std::uint32_t{5}).number(std::int32_t{-1}).bytes());
  file.add_string("text", "7");
  const Bytes bytes = file.bytes();
  const auto read = GgufFile::parse(bytes);
  ASSERT_TRUE(read);
  for (const char* key : {"big", "negative", "text", "missing"}) {
    EXPECT_TRUE(fails_with(read->get_u32(key), Errc::bad_file, key)) << key;
  }
}

TEST(GgufTest, FallsBackForMissingKeysOnly) {
  const Bytes bytes = small_file().bytes();
  const auto file = GgufFile::parse(bytes);
  ASSERT_TRUE(file);
  EXPECT_EQ(*file->get_u32_or("missing", 9), 9u);
  EXPECT_EQ(*file->get_u32_or("count", 9), 7u);
  EXPECT_FALSE(file->get_u32_or("texts", 9));
  EXPECT_FALSE(file->get_bool_or("count", true));
  EXPECT_FALSE(file->get_string_or("count", "x"));
  EXPECT_FALSE(file->get_f32_or("count", 1.0f));
}

TEST(GgufTest, RefusesFileTruncatedAnywhere) {
  const Bytes whole = small_file().bytes();
  ASSERT_TRUE(GgufFile::parse(whole));
  for (std::size_t count = 0; count < whole.size(); ++count) {
    // A copy of exactly that size, so that a sanitizer sees reads past its end.
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(count));
    const auto file = GgufFile::parse(part);
    ASSERT_FALSE(file) << count;
    EXPECT_TRUE(fails_with(file, Errc::bad_file, "truncated"))
        << count << ": " << file.error().message;
  }
}

TEST(GgufTest, SurvivesEveryByteChanged) {
  const Bytes whole = small_file().bytes();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
      Bytes changed = whole;
      changed[i] = static_cast<std::byte>(value);
      const auto file = GgufFile::parse(changed);
      if (!file) continue;
      for (const GgufTensor& tensor : file->tensors()) {
        EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), changed.data() + changed.size());
      }
    }
  }
}

TEST(GgufTest, RejectsOtherFileFormatsWithHint) {
  RawGguf file = small_file();
  file.magic = "PK\x03\x04";
  expect_bad(file, "not a GGUF file");
  EXPECT_TRUE(contains(parse_error(file).message, "edgedraft convert"));
}

TEST(GgufTest, RefusesOtherVersionsAndByteOrders) {
  RawGguf file = small_file();
  for (const std::uint32_t version : {1u, 4u}) {
    file.version = version;
    EXPECT_EQ(parse_error(file).code, Errc::unsupported);
    EXPECT_TRUE(contains(parse_error(file).message, "version " + std::to_string(version)));
  }
  file.version = 0x03000000;
  EXPECT_EQ(parse_error(file).code, Errc::unsupported);
  EXPECT_TRUE(contains(parse_error(file).message, "big-endian"));
}

TEST(GgufTest, ReadsVersion2AsVersion3) {
  RawGguf raw = small_file();
  raw.version = 2;
  const Bytes bytes = raw.bytes();
  const auto file = GgufFile::parse(bytes).value();
  EXPECT_EQ(file.tensors().size(), raw.tensors.size());
}

TEST(GgufTest, RefusesHugeCountsBeforeAllocating) {
  for (const std::uint64_t count :
       {std::uint64_t{65537}, std::uint64_t{1} << 40, std::numeric_limits<std::uint64_t>::max()}) {
    RawGguf file = small_file();
    file.tensor_count = count;
    expect_bad(file, "damaged");
    file = small_file();
    file.value_count = count;
    expect_bad(file, "damaged");
  }
}

TEST(GgufTest, RefusesLengthsBeyondTheFile) {
  for (const std::uint64_t length : {std::uint64_t{1} << 20, std::uint64_t{1} << 62,
                                     std::numeric_limits<std::uint64_t>::max()}) {
    RawGguf file;
    file.values.emplace_back("key", ByteWriter().number(std::uint32_t{8}).number(length).bytes());
    expect_bad(file, "truncated");
    for (const std::uint32_t element : {0u, 8u, 12u}) {
      file.values[0].second =
          ByteWriter().number(std::uint32_t{9}).number(element).number(length).bytes();
      expect_bad(file, "truncated");
    }
  }
}

TEST(GgufTest, RefusesUnknownAndNestedValueTypes) {
  RawGguf file;
  file.values.emplace_back("key", ByteWriter().number(std::uint32_t{13}).bytes());
  expect_bad(file, "unknown type 13");
  file.values[0].second = ByteWriter()
                              .number(std::uint32_t{9})
                              .number(std::uint32_t{9})
                              .number(std::uint64_t{1})
                              .bytes();
  EXPECT_EQ(parse_error(file).code, Errc::unsupported);
}

TEST(GgufTest, RefusesShapesThatOverflow) {
  const std::uint64_t big = std::uint64_t{1} << 32;
  for (const std::vector<std::uint64_t>& dims : {std::vector<std::uint64_t>{big, big},
                                                 {big, big, big, big},
                                                 {4, ~std::uint64_t{0}},
                                                 {~std::uint64_t{0}}}) {
    RawGguf file = small_file();
    file.tensors[0].dims = dims;
    expect_bad(file, "invalid shape");
  }
}

TEST(GgufTest, RefusesRowsOfPartialBlocks) {
  for (const std::uint32_t type : {12u, 13u, 14u}) {  // Q4_K, Q5_K, Q6_K: blocks of 256
    RawGguf file = small_file();
    file.tensors[1].type = type;  // type with blocks of 32
    expect_bad(file, "invalid shape");
    file.tensors[1].dims = {256};  // more elements than the file has
    expect_bad(file, "truncated");
  }
}

TEST(GgufTest, RefusesImpossibleShapes) {
  RawGguf file = small_file();
  file.tensors[0].dims = {2, 0};
  expect_bad(file, "dimension of zero");
  file.tensors[0].dims = {};
  expect_bad(file, "0 dimensions");
  file.tensors[0].dims = {1, 1, 1, 1, 1};
  expect_bad(file, "5 dimensions");
  file.tensors[0] = {"matrix", {33}, 8, 0};
  expect_bad(file, "invalid shape");
}

TEST(GgufTest, RefusesInvalidOffsets) {
  RawGguf file = small_file();
  file.tensors[1].offset = 8;
  expect_bad(file, "not aligned");
  file.tensors[1].offset = 0;
  expect_bad(file, "overlaps");
  file.tensors[1].offset = 1 << 20;
  expect_bad(file, "truncated");
  file.tensors[1].offset = std::numeric_limits<std::uint64_t>::max() - 31;
  expect_bad(file, "invalid offset");
}

TEST(GgufTest, RefusesDuplicateNames) {
  RawGguf file = small_file();
  file.tensors[1].name = "matrix";
  expect_bad(file, "occurs twice");
  file = small_file();
  file.add_u32("count", 8);
  expect_bad(file, "occurs twice");
}

TEST(GgufTest, RefusesInvalidAlignments) {
  for (const std::uint32_t alignment : {0u, 1u, 24u, 0x80000000u, 0xFFFFFFFFu}) {
    RawGguf file = small_file();
    file.add_u32("general.alignment", alignment);
    expect_bad(file, "general.alignment");
  }
  RawGguf file = small_file();
  file.add_u32("general.alignment", 8);
  const Bytes bytes = file.bytes();
  EXPECT_TRUE(GgufFile::parse(bytes));
}

TEST(GgufTest, NamesUnsupportedTypes) {
  RawGguf file = small_file();
  file.tensors[0].type = 34;
  const Error error = parse_error(file);
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_TRUE(contains(error.message, "TQ1_0"));
  EXPECT_TRUE(contains(error.message, "'matrix'"));
  // Q4_0 for Arm, as of 2024, and a type that ggml does not have yet.
  for (const auto& [type, named] :
       {std::pair(31u, "Q4_0_4_4"), std::pair(33u, "Q4_0_8_8"), std::pair(4711u, "4711")}) {
    file.tensors[0].type = type;
    const Error other = parse_error(file);
    EXPECT_EQ(other.code, Errc::unsupported) << named;
    EXPECT_TRUE(contains(other.message, named));
    EXPECT_TRUE(contains(other.message, "use a file in F32, F16,"));
  }
}

TEST(GgufTest, MappedFileSurvivesMove) {
  const test::TemporaryDirectory directory;
  const auto path = directory.write("small.gguf", small_file().bytes());
  auto opened = GgufFile::open(path).value();
  const GgufFile file = std::move(opened);
  EXPECT_EQ(*file.get_u32("count"), 7u);
  EXPECT_EQ(load_le<float>(&file.find_tensor("matrix")->bytes[4]), 1.0f);
}

TEST(GgufTest, NamesUnreadableFile) {
  const test::TemporaryDirectory directory;
  for (const auto& path : {directory / "missing.gguf", directory.path()}) {
    EXPECT_TRUE(fails_with(GgufFile::open(path), Errc::io, path.string()));
  }
  const auto empty = GgufFile::open(directory.write("empty.gguf", ""));
  EXPECT_TRUE(fails_with(empty, Errc::bad_file, "empty.gguf"));
}

TEST(GgufTest, RefusesFifoWithoutBlocking) {
  const test::TemporaryDirectory directory;
  const auto path = directory / "fifo.gguf";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(fails_with(MappedFile::open(path), Errc::io, "fifo.gguf is not a regular file"));
}

}  // namespace
}  // namespace edgedraft
