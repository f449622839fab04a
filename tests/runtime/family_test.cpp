#include <cmath>
#include <nlohmann/json.hpp>

#include "shared/base/text_file.h"
#include "shared/runtime/checkpoint_pool.h"
#include "tests/runtime/op_test.h"
#include "tests/support/family_models.h"

namespace edgedraft::testing {
namespace {

using nlohmann::json;

struct Golden {
  std::uint32_t context;
  std::vector<std::uint32_t> ids;
  std::vector<std::uint32_t> greedy;
  Floats logits;
};

std::vector<Golden> goldens_of(const std::string& name) {
  std::vector<Golden> goldens;
  const json file = json::parse(read_text_file(kFamilies / (name + ".json"), 1u << 20).value());
  for (const json& run : file) {
    for (const json& prompt : run.at("prompts")) {
      goldens.push_back({.context = run.at("context").get<std::uint32_t>(),
                         .ids = prompt.at("ids").get<std::vector<std::uint32_t>>(),
                         .greedy = prompt.at("greedy").get<std::vector<std::uint32_t>>(),
                         .logits = prompt.at("logits").get<Floats>()});
    }
  }
  return goldens;
}

struct FamilyCase {
  std::string model;
  BackendFactory backend;
};
void PrintTo(const FamilyCase& c, std::ostream* out) {
  *out << c.model << " on " << c.backend.name;
}
std::string case_name(const ::testing::TestParamInfo<FamilyCase>& info) {
  std::string name = info.param.model + "_" + info.param.backend.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

std::vector<FamilyCase> cases() {
  std::vector<FamilyCase> all;
  for (const std::string& model : family_models()) {
    for (const BackendFactory& backend : all_backends()) all.push_back({model, backend});
  }
  return all;
}

class FamilyTest : public ::testing::TestWithParam<FamilyCase> {
 protected:
  void SetUp() override {
    const BackendFactory& factory = GetParam().backend;
    backend_ = factory.open();
    if (!backend_) {
      EDGEDRAFT_SKIP_WITHOUT(factory.need.empty() ? factory.name : factory.need, "no such device");
    }
  }
  FamilyModel model(std::uint32_t context, Weights weights) {
    return FamilyModel(*backend_, GetParam().model, context, weights);
  }
  // Stand-ins for a GPU are slow.
  bool is_slow() const {
    return GetParam().backend.name == "cuda_on_host" || GetParam().backend.name == "vulkan";
  }
  Floats logits(Decoder& decoder, std::uint32_t row, std::uint32_t count = 1) {
    Floats out(std::size_t{count} * decoder.config().head_rows());
    decoder.backend().read(decoder.logits(row, count), out);
    return out;
  }

  std::unique_ptr<Backend> backend_;
};

double distance(const Floats& a, const Floats& b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return std::sqrt(difference / size);
}

std::uint32_t likeliest(const Floats& logits) {
  return static_cast<std::uint32_t>(std::ranges::max_element(logits) - logits.begin());
}

TEST_P(FamilyTest, ComputesTheGoldenLogitsAndTokens) {
  for (const Golden& golden : goldens_of(GetParam().model)) {
    if (is_slow() && golden.ids.size() > 40) continue;
    FamilyModel tiny = model(golden.context, Weights::exact);
    Decoder& decoder = tiny.decoder();
    KvCache cache = decoder.make_cache();
    Floats last = logits(decoder, decoder.append(cache, golden.ids) - 1);
    EXPECT_LE(distance(last, golden.logits), 1e-3) << golden.ids.size() << " ids";
    std::vector<std::uint32_t> greedy;
    while (greedy.size() < golden.greedy.size()) {
      greedy.push_back(likeliest(last));
      decoder.append(cache, std::span(&greedy.back(), 1));
      last = logits(decoder, 0);
    }
    EXPECT_EQ(greedy, golden.greedy) << golden.ids.size() << " ids";
  }
}

// The same bits whatever a call's width, and on a path of a tree.
TEST_P(FamilyTest, ComputesARowAloneAndAmongOthersWithTheSameBits) {
  const Golden golden = goldens_of(GetParam().model).at(1);
  const std::size_t count = is_slow() ? 12 : golden.ids.size();
  const auto ids = std::span(golden.ids).first(count);
  FamilyModel tiny = model(golden.context, Weights::as_stored);
  Decoder& decoder = tiny.decoder();
  Floats alone;
  KvCache one = decoder.make_cache();
  for (const std::uint32_t& id : ids) {
    decoder.append(one, std::span(&id, 1));
    alone = logits(decoder, 0);
  }
  for (const std::size_t width : {std::size_t{3}, std::size_t{16}, count}) {
    KvCache cache = decoder.make_cache();
    std::uint32_t rows = 0;
    for (std::size_t at = 0; at < count; at += width) {
      rows = decoder.append(cache, ids.subspan(at, std::min(width, count - at)));
    }
    EXPECT_EQ(logits(decoder, rows - 1), alone) << "width " << width;
  }
  // Rows 0, 2 and 5 of a tree are the last three ids; between them lie other branches.
  KvCache cache = decoder.make_cache();
  decoder.append(cache, ids.first(count - 3));
  const std::uint32_t length = cache.length();
  std::vector<std::uint32_t> tokens{ids[count - 3], 7, ids[count - 2], 9, 11, ids[count - 1]};
  std::vector<std::uint32_t> positions{length,     length + 1, length + 1,
                                       length + 2, length + 2, length + 2};
  std::vector<AncestorMask> masks(6);
  for (const auto& [row, ancestors] :
       {std::pair(0u, std::vector{0u}), std::pair(1u, std::vector{0u, 1u}),
        std::pair(2u, std::vector{0u, 2u}), std::pair(3u, std::vector{0u, 1u, 3u}),
        std::pair(4u, std::vector{0u, 2u, 4u}), std::pair(5u, std::vector{0u, 2u, 5u})}) {
    for (const std::uint32_t ancestor : ancestors) masks[row].set(ancestor);
  }
  decoder.forward(cache, tokens,
                  {.positions = positions, .prefix = length, .first_slot = length, .masks = masks});
  EXPECT_EQ(logits(decoder, 5), alone) << "a tree";
  // Kept, the path is a plain sequence: what follows has the same bits, too.
  cache.keep(std::vector{length, length + 2, length + 5});
  EXPECT_EQ(cache.length(), count);
  const std::uint32_t next = 5;
  decoder.append(cache, std::span(&next, 1));
  const Floats after = logits(decoder, 0);
  decoder.append(one, std::span(&next, 1));
  EXPECT_EQ(after, logits(decoder, 0)) << "after a tree";
}

// A prefix in pages, which two sequences continue.
TEST_P(FamilyTest, ContinuesSharedPagesWithTheSameBits) {
  constexpr std::uint32_t kPageSlots = 4;
  if (!backend_->takes_pages()) return;
  const Golden golden = goldens_of(GetParam().model).at(1);
  FamilyModel tiny = model(golden.context, Weights::as_stored);
  Decoder& decoder = tiny.decoder();
  const std::uint32_t count = is_slow() ? 12 : 40;
  const auto prefix = std::span(golden.ids).first(count - kPageSlots);
  const auto rest = std::span(golden.ids).subspan(prefix.size(), kPageSlots);
  KvCache own = decoder.make_cache();
  decoder.append(own, prefix);
  const Floats expected = logits(decoder, decoder.append(own, rest) - 1);

  KvPool pool(*backend_, decoder.pool_size(2 * count / kPageSlots, DType::f32, kPageSlots));
  KvCache first = decoder.make_cache(pool);
  ASSERT_TRUE(first.reserve(count));
  decoder.append(first, prefix);
  decoder.append(first, rest.first(1));  // settles the prefix
  std::optional<CheckpointPool> checkpoints;
  std::shared_ptr<const StateCheckpoint> states;
  if (decoder.is_recurrent()) {
    checkpoints.emplace(*backend_, decoder.config(), 1);
    states = checkpoints->save(*first.recurrent());
    EXPECT_EQ(checkpoints->save(*first.recurrent()), nullptr) << "the memory holds one";
  }
  EXPECT_EQ(logits(decoder, decoder.append(first, rest.subspan(1)) - 1), expected);
  KvCache second = decoder.make_cache(pool);
  second.adopt(first.pages().first(prefix.size() / kPageSlots), {}, states.get());
  ASSERT_TRUE(second.reserve(count));
  EXPECT_EQ(logits(decoder, decoder.append(second, rest) - 1), expected);
}

// Pages behind a window are returned while the sequence grows, by prompts and by trees. Here they
// hold NaN from then on.
TEST_P(FamilyTest, ReturnsPagesBehindWindowsWithTheSameBits) {
  constexpr std::uint32_t kPageSlots = 16;
  const std::uint32_t context = is_slow() ? 400 : 700;
  if (!backend_->takes_pages() || (is_slow() && GetParam().model != "gpt-oss")) return;
  FamilyModel tiny = model(context + kMaskRowsMax, Weights::as_stored);
  Decoder& decoder = tiny.decoder();
  if (decoder.window() == 0) return;
  KvPool all(*backend_, decoder.pool_size(context / kPageSlots + 17, DType::f32, kPageSlots));
  auto [whole_size, windowed_size] = decoder.pool_sizes(DType::f32, kPageSlots);
  const std::uint32_t bound = WindowPages::pages_for(decoder.window(), ~0u, kPageSlots);
  whole_size.page_count = all.size().page_count;
  windowed_size.page_count = bound + 3;
  KvPool whole(*backend_, whole_size);
  KvPool windowed(*backend_, windowed_size);
  const auto poison = [&] {
    std::vector<std::uint32_t> unused;
    while (windowed.free_count() > 0) unused.push_back(windowed.take());
    for (std::uint32_t layer = 0; layer < windowed_size.kv_cols.size(); ++layer) {
      const std::uint32_t cols = windowed_size.kv_cols[layer];
      const OwnedMatrix nan =
          matrix_of(*backend_, kPageSlots, cols, Floats(std::size_t{kPageSlots} * cols, NAN));
      for (const std::uint32_t& page : unused) {
        for (const CacheRows& rows : {windowed.keys(layer), windowed.values(layer)}) {
          backend_->store({.x = nan.all(),
                           .cache = CacheView(rows, std::span(&page, 1), kPageSlots),
                           .first = 0});
        }
      }
    }
    for (const std::uint32_t page : unused) windowed.give_back(page);
  };
  KvCache kept = decoder.make_cache(all);
  KvCache cache = decoder.make_cache(whole, windowed);
  ASSERT_TRUE(kept.reserve(context + kMaskRowsMax));
  ASSERT_TRUE(cache.reserve(context + kMaskRowsMax));
  Random random(3);
  const auto run = [&](std::uint32_t rows, bool as_prompt) {
    std::vector<std::uint32_t> tokens(rows);
    for (std::uint32_t& token : tokens) {
      token = static_cast<std::uint32_t>(random.below(decoder.config().vocabulary_count));
    }
    const auto masks = as_prompt ? causal_masks(rows) : random_tree(random(), rows);
    std::vector<std::uint32_t> positions;
    std::vector<std::uint32_t> path;
    for (std::uint32_t r = 0; r < rows; ++r) {
      std::uint32_t depth = 0;
      for (std::uint32_t j = 0; j < r; ++j) depth += masks[r].test(j) ? 1 : 0;
      positions.push_back(kept.length() + depth);
      if (masks[rows - 1].test(r)) path.push_back(kept.length() + r);
    }
    poison();
    Floats results[2];
    for (KvCache* each : {&kept, &cache}) {
      decoder.forward(*each, tokens,
                      {.positions = positions,
                       .prefix = each->length(),
                       .first_slot = each->length(),
                       .masks = masks});
      results[each == &cache] = logits(decoder, 0, rows);
      each->keep(path);
    }
    EXPECT_LE(windowed.used_count(), bound);
    EXPECT_TRUE(same_bytes(results[1], results[0])) << kept.length() << " positions";
  };
  for (const std::uint32_t rows : {context / 3, context / 3 + 23, 30u}) run(rows, true);
  while (kept.length() + 20 < context) run(static_cast<std::uint32_t>(1 + random.below(20)), false);
  EXPECT_GE(kept.length(), (is_slow() ? 5 : 20) * decoder.window());
  EXPECT_EQ(whole.used_count(), whole_size.pages_for(context + kMaskRowsMax)) << "reserved";

  // It can go back by a pass, but not to before its windows: there it begins again.
  for (KvCache* each : {&kept, &cache}) each->set_length(each->length() - kMaskRowsMax);
  EXPECT_EQ(cache.length(), kept.length());
  ASSERT_TRUE(kept.reserve(context + kMaskRowsMax));
  ASSERT_TRUE(cache.reserve(context + kMaskRowsMax));
  run(40, true);
  EXPECT_FALSE(cache.can_keep(50));
  cache.set_length(50);
  EXPECT_EQ(cache.length(), 0u);
  EXPECT_EQ(windowed.used_count(), 0u);
  kept.set_length(0);
  ASSERT_TRUE(kept.reserve(300));
  ASSERT_TRUE(cache.reserve(300));
  run(100, true);
}

// To a saved state of recurrent layers, and to the start.
TEST_P(FamilyTest, GoesBackAndOnWithTheSameBits) {
  const Golden golden = goldens_of(GetParam().model).at(1);
  const auto ids = std::span(golden.ids).first(is_slow() ? 12 : golden.ids.size());
  const auto half = static_cast<std::uint32_t>(ids.size() / 2);
  FamilyModel tiny = model(golden.context, Weights::as_stored);
  Decoder& decoder = tiny.decoder();
  KvCache cache = decoder.make_cache();
  decoder.append(cache, ids.first(half));
  if (cache.recurrent() != nullptr) cache.recurrent()->save();
  const Floats expected = logits(decoder, decoder.append(cache, ids.subspan(half)) - 1);
  for (const std::uint32_t length : {half + 1, 1u}) {
    cache.set_length(length);
    EXPECT_LE(cache.length(), length);
    if (length > half) {
      EXPECT_GE(cache.length(), half - 1) << "the copy is used";
    }
    const std::uint32_t rows = decoder.append(cache, ids.subspan(cache.length()));
    EXPECT_EQ(logits(decoder, rows - 1), expected) << "back to " << length;
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyTest, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace edgedraft::testing
