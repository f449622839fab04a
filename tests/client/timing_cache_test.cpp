#include "client/devices/timing_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "client/engine/bundle_file.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::client {
namespace {

const TimingKey kTimingKey{.device = "Gpu", .driver = "1.0", .bundle = "abcd", .tree = TreeShape{}};
const StepTiming kTiming{.seconds = 0.25, .bytes_per_second = 3e9};

class TimingCacheTest : public ::testing::Test {
 protected:
  std::string text() const { return test::file_text(file_); }

  test::TemporaryDirectory directory_;
  const std::filesystem::path file_ = directory_ / "below/devices.json";
};

void expect_timing(const std::optional<StepTiming>& found, const StepTiming& expected) {
  ASSERT_TRUE(found);
  EXPECT_EQ(found->seconds, expected.seconds);
  EXPECT_EQ(found->bytes_per_second, expected.bytes_per_second);
}

TEST_F(TimingCacheTest, KeepsTimingsAcrossRuns) {
  TimingCache cache(file_);
  EXPECT_FALSE(cache.find(kTimingKey));
  ASSERT_TRUE(cache.put(kTimingKey, kTiming));
  expect_timing(cache.find(kTimingKey), kTiming);
  expect_timing(TimingCache(file_).find(kTimingKey), kTiming);
}

TEST_F(TimingCacheTest, DistinguishesDeviceDriverDrafterCacheTypeAndTree) {
  TimingCache cache(file_);
  ASSERT_TRUE(cache.put(kTimingKey, kTiming));
  const auto finds_with = [&](auto change) {
    TimingKey other = kTimingKey;
    change(other);
    return cache.find(other).has_value();
  };
  EXPECT_FALSE(finds_with([](TimingKey& key) { key.device = "Gpu 2"; }));
  EXPECT_FALSE(finds_with([](TimingKey& key) { key.driver = "1.1"; }));
  EXPECT_FALSE(finds_with([](TimingKey& key) { key.bundle = "abce"; }));
  EXPECT_FALSE(finds_with([](TimingKey& key) { key.kv_type = DType::f16; }));
  EXPECT_FALSE(finds_with([](TimingKey& key) { key.tree = chain_shape(4); }));
}

TEST_F(TimingCacheTest, ReplacesOldTimingAndEvictsOldestEntries) {
  TimingCache cache(file_);
  ASSERT_TRUE(cache.put(kTimingKey, kTiming));
  const StepTiming later{.seconds = 0.5, .bytes_per_second = 1e9};
  ASSERT_TRUE(cache.put(kTimingKey, later));
  expect_timing(TimingCache(file_).find(kTimingKey), later);
  for (std::size_t i = 0; i < TimingCache::kEntriesMax; ++i) {
    TimingKey key = kTimingKey;
    key.bundle = std::to_string(i);
    ASSERT_TRUE(cache.put(key, kTiming));
  }
  const TimingCache again(file_);
  EXPECT_FALSE(again.find(kTimingKey));
  TimingKey first = kTimingKey;
  first.bundle = "0";
  EXPECT_TRUE(again.find(first));
  EXPECT_EQ(nlohmann::json::parse(text())["measured"].size(), TimingCache::kEntriesMax);
}

TEST_F(TimingCacheTest, IgnoresAndRewritesDamagedFile) {
  TimingCache(file_).put(kTimingKey, kTiming).value();
  const std::string whole = text();
  const auto with = [&](const char* name, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(whole);
    json["measured"][0][name] = value;
    return json.dump();
  };
  std::vector<std::string> damaged{"",
                                   "nonsense",
                                   "{}",
                                   "[1]",
                                   "null",
                                   "{\"measured\": 3}",
                                   std::string(2u << 20, ' ') + whole,
                                   with("seconds", 0),
                                   with("seconds", -1),
                                   with("seconds", "1"),
                                   with("bytes_per_second", nullptr),
                                   with("kv_type", "f99"),
                                   with("kv_type", 16),
                                   with("tree", {1, 2}),
                                   with("tree", {-1, "a", 3}),
                                   with("device", 7)};
  auto version = nlohmann::json::parse(whole);
  version["version"] = "another";
  damaged.push_back(version.dump());
  for (std::size_t length = 1; length + 2 < whole.size(); length += 7) {
    damaged.push_back(whole.substr(0, length));
  }
  for (const std::string& bytes : damaged) {
    SCOPED_TRACE(bytes.substr(0, 200));
    std::ofstream(file_, std::ios::trunc) << bytes;
    TimingCache cache(file_);
    EXPECT_FALSE(cache.find(kTimingKey));
    ASSERT_TRUE(cache.put(kTimingKey, kTiming));
    EXPECT_EQ(text(), whole);
  }
}

TEST_F(TimingCacheTest, KeepsTimingsInMemoryIfFileCannotBeWritten) {
  TimingCache cache(directory_.write("file", "x") / "devices.json");
  EXPECT_FALSE(cache.put(kTimingKey, kTiming));
  expect_timing(cache.find(kTimingKey), kTiming);
}

TEST_F(TimingCacheTest, MeasuresDrafterOnceUnlessRenewed) {
  const auto bundle = BundleFile::open(EDGEDRAFT_MODELS "/moa-tli1.gguf", BundleUse::draft).value();
  TimingCache cache(file_);
  const auto measure = [&](MeasuringOptions::Known known) {
    return make_measure({.drafter = bundle.drafter(),
                         .fingerprint = bundle.fingerprint(),
                         .tree = {.breadth = 2, .depth = 2, .nodes = 4},
                         .threads = 1,
                         .cache = cache,
                         .known = known});
  };
  const ComputeDevice cpu = cpu_device(1);
  const StepTiming first = measure(MeasuringOptions::Known::take)(cpu).value();
  EXPECT_GT(first.seconds, 0.0);
  EXPECT_NEAR(first.bytes_per_second * first.seconds,
              static_cast<double>(bundle.drafter_facts().step_bytes), 1.0);
  // The head (the embedding), SA, CA's queries, outputs and feed-forward, one layer of the target.
  EXPECT_GT(bundle.drafter_facts().step_bytes, 2'500'000u);
  EXPECT_LT(bundle.drafter_facts().step_bytes,
            std::filesystem::file_size(EDGEDRAFT_MODELS "/moa-tli1.gguf"));
  const std::string kept = text();
  EXPECT_EQ(measure(MeasuringOptions::Known::take)(cpu)->seconds, first.seconds);
  EXPECT_EQ(text(), kept);
  std::filesystem::remove(file_);
  ASSERT_TRUE(measure(MeasuringOptions::Known::renew)(cpu));
  EXPECT_TRUE(std::filesystem::exists(file_)) << "measured and kept";
  const auto unusable = measure(MeasuringOptions::Known::renew)(
      {.id = "vulkan:9", .name = "Gpu", .unusable = "old", .vulkan_index = 9});
  ASSERT_FALSE(unusable);
  EXPECT_NE(unusable.error().message.find("old"), std::string::npos);
}

}  // namespace
}  // namespace edgedraft::client
