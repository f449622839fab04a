#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shared/drafting/bundle_conversion.h"
#include "shared/drafting/dflash/dflash_model.h"
#include "shared/model/gguf.h"
#include "tests/support/family_files.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::testing {

inline const std::filesystem::path kBlockDrafters = kFamilies.parent_path() / "dflash";
inline const std::vector<std::string> kBlockDrafterNames = {"dflash", "dflash-swa"};
inline constexpr const char* kBlockDraftersTarget = "qwen3";

// The bundle of a drafter of tests/data/dflash.
class BlockDrafter {
 public:
  explicit BlockDrafter(const std::string& name)
      : target_path_(directory_.write(
            "target.gguf", unzipped(kFamilies / (std::string(kBlockDraftersTarget) + ".gguf.gz")))),
        source_path_(
            directory_.write("drafter.gguf", unzipped(kBlockDrafters / (name + ".gguf.gz")))) {
    const auto made =
        make_bundle({.target = target_path_, .drafter = source_path_, .output = path()});
    EXPECT_TRUE(made) << made.error().message;
    file_.emplace(GgufFile::open(path()).value());
    model_ = read_dflash(*file_).value();
  }

  const std::filesystem::path& target_path() const { return target_path_; }
  const std::filesystem::path& source_path() const { return source_path_; }
  std::filesystem::path path() const { return directory_ / "bundle.gguf"; }
  const GgufFile& file() const { return *file_; }
  const DflashModel& model() const { return model_; }

 private:
  test::TemporaryDirectory directory_;
  std::filesystem::path target_path_;
  std::filesystem::path source_path_;
  std::optional<GgufFile> file_;
  DflashModel model_;
};

}  // namespace edgedraft::testing
