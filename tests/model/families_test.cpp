#include "shared/model/families/family.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "shared/model/decoder_tensors.h"
#include "tests/support/family_files.h"

namespace edgedraft {
namespace {

std::optional<Error> error_of(ByteView bytes) {
  const auto file = GgufFile::parse(bytes);
  if (!file) return file.error();
  const auto model = read_decoder(*file);
  return model ? std::nullopt : std::optional(model.error());
}

// The place of a name that is a view of the file's header.
std::size_t place_of(const Bytes& bytes, std::string_view name) {
  return static_cast<std::size_t>(name.data() - reinterpret_cast<const char*>(bytes.data()));
}

class FamiliesTest : public ::testing::TestWithParam<std::string> {
 protected:
  Bytes bytes_ = testing::unzipped(testing::kFamilies / (GetParam() + ".gguf.gz"));
};

// An unknown name in place of each tensor's: the one is missing, the other would be ignored.
TEST_P(FamiliesTest, EveryTensorIsNeeded) {
  ASSERT_FALSE(error_of(bytes_)) << error_of(bytes_)->message;
  const auto file = GgufFile::parse(bytes_).value();
  const auto config = read_decoder_config(file).value();
  const std::string others = "blk." + std::to_string(config.layer_count) + ".";
  for (const GgufTensor& tensor : file.tensors()) {
    if (config.other_layer_count > 0 && tensor.name.starts_with(others)) continue;
    Bytes damaged = bytes_;
    damaged[place_of(bytes_, tensor.name)] = std::byte{'?'};
    EXPECT_TRUE(error_of(damaged)) << tensor.name;
  }
}

// Sizes of other models, and impossible ones, are refused or fit the tensors all the same.
TEST_P(FamiliesTest, EverySizeIsChecked) {
  const auto file = GgufFile::parse(bytes_).value();
  const std::string prefix = std::string(file.architecture().value()) + ".";
  std::set<std::string> refused;
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with(prefix) || value.type != GgufType::u32) continue;
    const std::size_t place = place_of(bytes_, key) + key.size() + sizeof(std::uint32_t);
    for (const std::uint32_t size : {0u, 1u, 2u, 3u, 5u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
      Bytes damaged = bytes_;
      std::memcpy(&damaged[place], &size, sizeof(size));
      if (error_of(damaged)) refused.emplace(key);
    }
    // Phi's windows are ignored, as by the models' own programs.
    EXPECT_TRUE(refused.contains(std::string(key)) || key.ends_with(".vocab_size") ||
                key.ends_with(".original_context_length") || key == "phi3.attention.sliding_window")
        << key << " may be anything";
  }
  EXPECT_GE(refused.size(), 4u);
}

std::string case_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Files, FamiliesTest, ::testing::ValuesIn(testing::family_models()),
                         case_name);

TEST(FamilyTableTest, UnknownArchitectureNamesTheKnown) {
  const auto found = find_family("mamba");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::unsupported);
  for (const Family* family : families()) {
    EXPECT_NE(found.error().message.find(family->architecture), std::string::npos);
  }
}

}  // namespace
}  // namespace edgedraft
