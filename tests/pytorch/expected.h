#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "shared/model/safetensors.h"

namespace edgedraft::testing {

// PyTorch's outputs for a fixture (train/fixtures.py).
class Expected {
 public:
  explicit Expected(const std::filesystem::path& folder)
      : file_(SafetensorsFile::open(folder / "expected.safetensors").value()) {}

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  std::vector<float> floats(const std::string& name) const { return read<float>(name, "F32"); }
  std::vector<std::int32_t> ints(const std::string& name) const {
    return read<std::int32_t>(name, "I32");
  }
  std::vector<std::uint32_t> tokens(const std::string& name) const {
    const auto values = ints(name);
    return {values.begin(), values.end()};
  }

 private:
  template <class T>
  std::vector<T> read(const std::string& name, const std::string& type) const {
    const SafetensorsTensor* tensor = file_.find(name);
    if (!tensor || tensor->type != type) throw std::runtime_error("fixture lacks " + name);
    std::vector<T> values(tensor->bytes.size() / sizeof(T));
    std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
    return values;
  }

  SafetensorsFile file_;
};

// Logits within 1e-3 of PyTorch's, row by row.
inline void expect_agreement(std::span<const float> measured, std::span<const float> expected,
                             const std::string& what) {
  ASSERT_EQ(measured.size(), expected.size()) << what;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    ASSERT_NEAR(measured[i], expected[i], 1e-3) << what << ", entry " << i;
  }
}

}  // namespace edgedraft::testing
