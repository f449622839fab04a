#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shared/drafting/bundle_conversion.h"
#include "shared/drafting/mtp/mtp_model.h"
#include "shared/model/gguf.h"
#include "tests/support/family_files.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::testing {

inline const std::vector<std::string> kMtpFamilies = {"qwen35", "qwen35moe"};

// The drafter in a model of tests/data/families, split from it.
class OwnDrafter {
 public:
  explicit OwnDrafter(const std::string& family, std::vector<std::uint32_t> draft_tokens = {})
      : target_path_(directory_.write("target.gguf", unzipped(kFamilies / (family + ".gguf.gz")))) {
    const auto split = split_drafter(
        {.model = target_path_, .output = path(), .draft_tokens = std::move(draft_tokens)});
    EXPECT_TRUE(split) << split.error().message;
    file_.emplace(GgufFile::open(path()).value());
    model_ = read_mtp(*file_).value();
  }

  const std::filesystem::path& target_path() const { return target_path_; }
  std::filesystem::path path() const { return directory_ / "drafter.gguf"; }
  const GgufFile& file() const { return *file_; }
  const FeatureModel& model() const { return model_; }

 private:
  test::TemporaryDirectory directory_;
  std::filesystem::path target_path_;
  std::optional<GgufFile> file_;
  FeatureModel model_;
};

}  // namespace edgedraft::testing
