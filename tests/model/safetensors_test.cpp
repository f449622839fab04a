#include "shared/model/safetensors.h"

#include <gtest/gtest.h>

#include "shared/base/json_shape.h"
#include "tests/model/raw_gguf.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft {
namespace {

using test::ByteWriter;
using test::TemporaryDirectory;

Bytes file_of(const std::string& header, std::size_t data_bytes) {
  return ByteWriter().string(header).raw(Bytes(data_bytes, std::byte{7})).bytes();
}

std::string entry(const std::string& name, const std::string& type, const std::string& shape,
                  std::size_t begin, std::size_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

std::string two_tensors() {
  return "{\"__metadata__\":{\"format\":\"pt\"}," + entry("b", "BF16", "[3]", 8, 14) + "," +
         entry("a", "F32", "[1,2]", 0, 8) + "}";
}

void expect_bad(const std::string& header, std::size_t data_bytes, const std::string& words) {
  const Bytes bytes = file_of(header, data_bytes);
  const auto file = SafetensorsFile::parse(bytes);
  ASSERT_FALSE(file) << header;
  EXPECT_TRUE(contains(file.error().message, words));
}

TEST(SafetensorsTest, FindsTensorsByName) {
  const Bytes bytes = file_of(two_tensors(), 14);
  const auto file = SafetensorsFile::parse(bytes).value();
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.find("a")->shape, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(file.find("a")->weight_type(), DType::f32);
  EXPECT_EQ(file.find("b")->bytes.size(), 6u);
  EXPECT_EQ(file.find("b")->bytes.data(), &bytes[bytes.size() - 6]);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST(SafetensorsTest, ReadsIntegerTensors) {
  const Bytes bytes = file_of("{" + entry("ids", "I32", "[2]", 0, 8) + "}", 8);
  const auto file = SafetensorsFile::parse(bytes);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->find("ids")->weight_type(), std::nullopt);
}

TEST(SafetensorsTest, RefusesFileTruncatedAnywhere) {
  const Bytes whole = file_of(two_tensors(), 14);
  for (std::size_t count = 0; count < whole.size(); ++count) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(count));
    const auto file = SafetensorsFile::parse(part);
    ASSERT_FALSE(file) << count;
    EXPECT_TRUE(contains(file.error().message, "truncated")) << count;
  }
}

TEST(SafetensorsTest, SurvivesEveryByteChanged) {
  const Bytes whole = file_of(two_tensors(), 14);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int value : {0x00, 0x22, 0x39, 0x5B, 0x7D, 0xFF}) {
      Bytes changed = whole;
      changed[i] = static_cast<std::byte>(value);
      const auto file = SafetensorsFile::parse(changed);
      if (!file) continue;
      for (const auto& [name, tensor] : file->tensors()) {
        EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), changed.data() + changed.size());
      }
    }
  }
}

TEST(SafetensorsTest, RefusesGapsOverlapsAndTrailingBytes) {
  const std::string a = entry("a", "F32", "[2]", 0, 8);
  expect_bad("{" + a + "," + entry("b", "F32", "[1]", 12, 16) + "}", 16, "gaps");
  expect_bad("{" + a + "," + entry("b", "F32", "[1]", 4, 8) + "}", 8, "overlap");
  expect_bad("{" + entry("b", "F32", "[1]", 4, 8) + "}", 8, "gaps");
  expect_bad("{" + a + "}", 9, "after its last tensor");
  expect_bad("{" + a + "," + a + "," + entry("c", "F32", "[1]", 16, 20) + "}", 20, "gaps");
}

TEST(SafetensorsTest, RefusesInconsistentEntries) {
  for (const std::string& bad : {entry("a", "F32", "[3]", 0, 8), entry("a", "F32", "[2]", 8, 0),
                                 entry("a", "F32", "[-2]", 0, 8), entry("a", "F32", "2", 0, 8),
                                 entry("a", "F32", "[1.5]", 0, 8),
                                 entry("a", "F32", "[4294967296,4294967296,4294967296]", 0, 8),
                                 entry("a", "F32", "[1,1,1,1,1,1,1,1,2]", 0, 8)}) {
    expect_bad("{" + bad + "}", 8, "tensor a");
  }
  expect_bad("{\"a\":{}}", 0, "tensor a");
  expect_bad("{\"a\":7}", 0, "tensor a");
  expect_bad("{" + entry("a", "Q9", "[2]", 0, 8) + "}", 8, "Q9");
}

TEST(SafetensorsTest, RefusesInvalidHeaders) {
  expect_bad("[]", 0, "not a safetensors file");
  expect_bad("{", 0, "not a safetensors file");
  const Bytes huge = ByteWriter().number(~std::uint64_t{0}).bytes();
  EXPECT_FALSE(SafetensorsFile::parse(huge));
  expect_bad(std::string(100000, '['), 0, "not a safetensors file");
}

// A parsed JSON tree takes far more memory than its brackets in the file.
TEST(SafetensorsTest, RefusesDeeplyNestedHeaders) {
  const auto header = [](std::size_t depth) {
    return "{\"__metadata__\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  expect_bad(header(kJsonDepthMax), 0, "nests deeper than 256 levels");
  const Bytes bytes = file_of(header(kJsonDepthMax - 1), 0);
  EXPECT_TRUE(SafetensorsFile::parse(bytes));
}

TEST(SafetensorsModelTest, JoinsShardsOfIndex) {
  const TemporaryDirectory directory;
  directory.write("one.safetensors", file_of("{" + entry("a", "F32", "[2]", 0, 8) + "}", 8));
  directory.write("two.safetensors", file_of("{" + entry("b", "F32", "[1]", 0, 4) + "}", 4));
  directory.write("model.safetensors.index.json",
                  R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  const auto model = SafetensorsModel::open(directory.path()).value();
  EXPECT_EQ(model.tensors().size(), 2u);
  EXPECT_EQ(model.find("b")->shape, (std::vector<std::uint64_t>{1}));
}

TEST(SafetensorsModelTest, RefusesShardPathsOutsideDirectory) {
  const TemporaryDirectory directory;
  for (const char* name : {"../x.safetensors", "/etc/passwd", "..", ""}) {
    directory.write("model.safetensors.index.json",
                    std::string(R"({"weight_map": {"a": ")") + name + "\"}}");
    EXPECT_TRUE(fails_with(SafetensorsModel::open(directory.path()), Errc::bad_file)) << name;
  }
}

TEST(SafetensorsModelTest, RefusesMissingShardsAndDuplicateTensors) {
  const TemporaryDirectory directory;
  directory.write("one.safetensors", file_of("{" + entry("a", "F32", "[2]", 0, 8) + "}", 8));
  directory.write("model.safetensors.index.json",
                  R"({"weight_map": {"a": "one.safetensors", "b": "gone.safetensors"}})");
  EXPECT_TRUE(
      contains(SafetensorsModel::open(directory.path()).error().message, "gone.safetensors"));
  directory.write("gone.safetensors", file_of("{" + entry("a", "F32", "[2]", 0, 8) + "}", 8));
  EXPECT_EQ(SafetensorsModel::open(directory.path()).error().code, Errc::bad_file);
}

TEST(SafetensorsModelTest, ReportsMissingWeights) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(fails_with(SafetensorsModel::open(directory.path()), Errc::io, "model.safetensors"));
}

}  // namespace
}  // namespace edgedraft
