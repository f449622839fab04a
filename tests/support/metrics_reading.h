#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace edgedraft::testing {

// Samples of a metrics page by name and labels as written, without our prefix. Fails if the text
// breaks the format: a sample without a family, an invalid number, or a histogram whose buckets do
// not add up.
inline std::map<std::string, double> read_metrics(const std::string& text) {
  constexpr std::string_view kPrefix = "edgedraft:";
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types;
  std::istringstream lines(text);
  std::string line;
  std::string bucket_of;
  double below = 0.0;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string name;
    if (line.starts_with("# ")) {
      std::string mark;
      std::string kind;
      std::string rest;
      words >> mark >> kind >> name >> rest;
      EXPECT_TRUE(name.starts_with(kPrefix)) << line;
      EXPECT_FALSE(rest.empty()) << line;
      if (kind == "TYPE") {
        EXPECT_TRUE(types.emplace(name, rest).second) << line;
      }
      continue;
    }
    const std::size_t space = line.rfind(' ');
    const std::string sample = line.substr(0, space);
    std::size_t read = 0;
    const std::string number = space == std::string::npos ? "" : line.substr(space + 1);
    const double value = number.empty() ? 0.0 : std::stod(number, &read);
    EXPECT_TRUE(!number.empty() && read == number.size()) << line;
    name = sample.substr(0, sample.find('{'));
    std::string family = name;
    for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
      if (!types.contains(family) && name.ends_with(suffix)) {
        family = name.substr(0, name.size() - suffix.size());
      }
    }
    EXPECT_TRUE(types.contains(family)) << line;
    if (name.ends_with("_bucket")) {
      const std::string labels = sample.substr(0, sample.find("le="));
      if (labels != bucket_of) below = 0.0;
      bucket_of = labels;
      EXPECT_GE(value, below) << line;
      below = value;
    } else if (name.ends_with("_count") && types[family] == "histogram") {
      EXPECT_EQ(value, below) << line;
    }
    EXPECT_TRUE(sample.starts_with(kPrefix)) << line;
    EXPECT_TRUE(samples.emplace(sample.substr(kPrefix.size()), value).second)
        << "duplicate sample: " << line;
  }
  return samples;
}

}  // namespace edgedraft::testing
