#pragma once

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "shared/base/bytes.h"
#include "tests/support/fixtures.h"

// The files of tests/data/families.
namespace edgedraft::testing {

inline const std::filesystem::path kFamilies = test::kFixtures.parent_path() / "families";

inline std::vector<std::string> family_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFamilies)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

inline Bytes unzipped(const std::filesystem::path& path) {
  Bytes bytes;
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path.string());
  std::array<std::byte, 1u << 16> part;
  for (int count = 0; (count = gzread(file, part.data(), part.size())) > 0;) {
    bytes.insert(bytes.end(), part.begin(), part.begin() + count);
  }
  gzclose(file);
  return bytes;
}

}  // namespace edgedraft::testing
