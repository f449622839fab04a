#pragma once

#include <filesystem>

namespace edgedraft::test {

// Small checkpoints with random weights, and PyTorch's results for them (train/fixtures.py).
inline const std::filesystem::path kFixtures = EDGEDRAFT_TEST_DATA "/fixtures";

}  // namespace edgedraft::test
