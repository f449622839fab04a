#include "server/cuda/cublas_functions.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace edgedraft::server {
namespace {

bool is_loaded(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  const std::string text(std::istreambuf_iterator<char>(maps), {});
  return text.find(library) != std::string::npos;
}

// Programs that compute on the CPU start without cuBLAS.
TEST(CublasFunctionsTest, LoadsLibraryOnFirstCall) {
  EXPECT_FALSE(is_loaded("libcublas.so"));
  const auto name_of = cublas_functions().status_string;
  EXPECT_STRNE(name_of(CUBLAS_STATUS_SUCCESS), name_of(CUBLAS_STATUS_NOT_INITIALIZED));
  EXPECT_TRUE(is_loaded("libcublas.so"));
}

}  // namespace
}  // namespace edgedraft::server
