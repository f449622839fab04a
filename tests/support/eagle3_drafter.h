#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "shared/drafting/bundle_conversion.h"
#include "shared/drafting/eagle3/eagle3_model.h"
#include "shared/model/gguf.h"
#include "tests/support/expect.h"
#include "tests/support/family_files.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::testing {

inline const std::filesystem::path kEagle3Files = test::kFixtures.parent_path() / "eagle3";

// A drafter of tests/data/eagle3 as llama.cpp's file, and its bundle.
class Eagle3Drafter {
 public:
  explicit Eagle3Drafter(const std::string& name)
      : golden_(nlohmann::json::parse(test::file_text(kEagle3Files / (name + ".json")))),
        target_path_(
            directory_.write("target.gguf", unzipped(kFamilies / (target() + ".gguf.gz")))),
        source_path_(
            directory_.write("source.gguf", unzipped(kEagle3Files / (name + ".gguf.gz")))) {
    const auto made = bundle_of(source_path_);
    EXPECT_TRUE(made) << made.error().message;
    file_.emplace(GgufFile::open(path()).value());
    model_ = read_eagle3(*file_).value();
  }

  Result<void> bundle_of(const std::filesystem::path& source) const {
    return make_bundle({.target = target_path_, .drafter = source, .output = path()});
  }
  // Name of the model of tests/data/families.
  std::string target() const { return golden_.at("target"); }
  const nlohmann::json& golden() const { return golden_; }
  const test::TemporaryDirectory& directory() const { return directory_; }
  const std::filesystem::path& source_path() const { return source_path_; }
  std::filesystem::path path() const { return directory_ / "drafter.gguf"; }
  const GgufFile& file() const { return *file_; }
  const Eagle3Model& model() const { return model_; }

 private:
  nlohmann::json golden_;
  test::TemporaryDirectory directory_;
  std::filesystem::path target_path_;
  std::filesystem::path source_path_;
  std::optional<GgufFile> file_;
  Eagle3Model model_;
};

}  // namespace edgedraft::testing
