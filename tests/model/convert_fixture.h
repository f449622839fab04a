#pragma once

#include <gtest/gtest.h>

#include <string>

#include "shared/model/convert/convert.h"
#include "shared/model/gguf.h"
#include "tests/model/hf_directory.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::test {

// Converts a folder into a file "m.gguf" in another folder.
class ConvertFixture : public ::testing::Test {
 protected:
  Result<void> convert_input(DType type) {
    return convert_model({.input = input_.path(), .output = output_ / "m.gguf", .type = type});
  }

  Result<void> convert(const HfDirectory& source, DType type) {
    source.write(input_);
    return convert_input(type);
  }

  GgufFile converted(const HfDirectory& source, DType type) {
    const auto done = convert(source, type);
    EXPECT_TRUE(done) << done.error().message;
    return GgufFile::open(output_ / "m.gguf").value();
  }

  void expect_input_error(Errc code, const std::string& named) {
    EXPECT_TRUE(fails_with(convert_input(DType::f32), code, named)) << named;
    EXPECT_EQ(output_.file_count(), 0u);
  }

  void expect_error(const HfDirectory& source, Errc code, const std::string& named) {
    source.write(input_);
    expect_input_error(code, named);
  }

  TemporaryDirectory input_;
  TemporaryDirectory output_;
};

}  // namespace edgedraft::test
