#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/drafting/bundle_conversion.h"
#include "shared/drafting/gemma4_assistant/assistant_model.h"
#include "shared/model/gguf.h"
#include "tests/support/family_files.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::testing {

// The second one's target projects keys and values by one matrix.
inline const std::vector<std::string> kAssistants = {"gemma4-assistant", "gemma4-assistant-keqv"};

// A bundle of an assistant of tests/data/assistants and its target.
class AssistantBundle {
 public:
  explicit AssistantBundle(const std::string& name, std::vector<std::uint32_t> draft_tokens = {})
      : golden_(nlohmann::json::parse(test::file_text(folder() / (name + ".json")))),
        assistant_path_(
            directory_.write("assistant.gguf", unzipped(folder() / (name + ".gguf.gz")))),
        target_path_(
            directory_.write("target.gguf", unzipped(kFamilies / (family() + ".gguf.gz")))) {
    const auto made = make_bundle({.target = target_path_,
                                   .drafter = assistant_path_,
                                   .output = path(),
                                   .draft_tokens = std::move(draft_tokens)});
    EXPECT_TRUE(made) << made.error().message;
    file_.emplace(GgufFile::open(path()).value());
    model_ = read_assistant(*file_).value();
  }

  // Results for some prompts.
  const nlohmann::json& golden() const { return golden_; }
  // The target's name in tests/data/families.
  std::string family() const { return golden_.at("target"); }
  const std::filesystem::path& assistant_path() const { return assistant_path_; }
  const std::filesystem::path& target_path() const { return target_path_; }
  std::filesystem::path path() const { return directory_ / "drafter.gguf"; }
  const GgufFile& file() const { return *file_; }
  const AssistantModel& model() const { return model_; }

 private:
  static std::filesystem::path folder() { return kFamilies.parent_path() / "assistants"; }

  test::TemporaryDirectory directory_;
  nlohmann::json golden_;
  std::filesystem::path assistant_path_;
  std::filesystem::path target_path_;
  std::optional<GgufFile> file_;
  AssistantModel model_;
};

}  // namespace edgedraft::testing
