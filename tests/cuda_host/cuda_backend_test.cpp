#include "server/cuda/cuda_backend.h"

#include <cuda_runtime.h>

#include <array>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.cuh"
#include "server/sessions/target_session.h"
#include "shared/drafting/feature_network.h"
#include "shared/drafting/medusa/medusa_drafter.h"
#include "shared/drafting/moa/moa_network.h"
#include "shared/drafting/moa/moa_tap.h"
#include "tests/runtime/op_test.h"
#include "tests/support/matrix_reading.h"
#include "tests/support/toy_feature_drafters.h"
#include "tests/support/toy_models.h"

// CUDA-specific tests beyond tests/runtime: the library's math mode, device failures and
// allocations.
namespace edgedraft::testing {
using namespace server;
namespace {

constexpr std::uint32_t kContext = 64;
using Tokens = std::vector<std::uint32_t>;

// A matmul of `rows` rows with every option of a layer: bias, accumulation, and strided rows.
Floats product(Backend& backend, DType type, std::uint32_t rows) {
  constexpr std::uint32_t kInputs = 64;
  constexpr std::uint32_t kOutputs = 40;
  const TestWeight w(backend, type, kOutputs, kInputs, random_floats(1, kOutputs * kInputs));
  const TestWeight bias(backend, DType::f32, 1, kOutputs, random_floats(2, kOutputs));
  const OwnedMatrix x =
      matrix_of(backend, rows, kInputs + 3, random_floats(3, rows * (kInputs + 3)));
  const OwnedMatrix y =
      matrix_of(backend, rows, kOutputs + 5, random_floats(4, rows * (kOutputs + 5)));
  backend.matmul({.x = x.all().column_range(1, kInputs),
                  .weight = w.weight,
                  .bias = bias.weight,
                  .y = y.all().column_range(2, kOutputs),
                  .into = Into::accumulate});
  return values_of(backend, y.all());
}

// Rounding activations to bfloat16 changes each by at most 2^-9.
TEST(CudaDefaultModeTest, WideMatmulsMatchReferenceUpToRounding) {
  const auto reference = make_reference_backend();
  const auto fast = make_cuda_backend({});
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    const Floats exact = product(*reference, type, 33);
    const Floats values = product(*fast, type, 33);
    const double rounding = type == DType::f32 ? 0x1p-20 : type == DType::f16 ? 0x1p-12 : 0x1p-9;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      // 64 products below 1 in magnitude, the bias and the accumulated value.
      expect_near(values[i], double{exact[i]}, 64 * rounding + 1e-5,
                  std::string(traits(type).name));
    }
  }
}

TEST(CudaDefaultModeTest, NarrowMatmulsMatchDeterministicModeBitForBit) {
  const auto deterministic = make_cuda_backend({.deterministic = true});
  const auto fast = make_cuda_backend({});
  for (const DType type : kDTypes) {
    if (traits(type).block_count > 64) continue;
    EXPECT_TRUE(same_bytes(product(*fast, type, kOwnProductRowsMax),
                           product(*deterministic, type, kOwnProductRowsMax)))
        << traits(type).name;
  }
}

// A pool of small pages that a decoder's sequences take in rotation.
KvPool small_pool(Backend& backend, const ToyDecoder& toy) {
  return {backend, {.kv_cols = toy.config.kv_cols(), .page_count = 200, .page_slots = 4}};
}

// A cache whose pages interleave with another one's.
KvCache scattered_cache(const Decoder& decoder, KvPool& pool) {
  KvCache cache = decoder.make_cache(pool);
  KvCache other = decoder.make_cache(pool);
  for (std::uint32_t slots = 4; slots <= 80; slots += 4) {
    EXPECT_TRUE(cache.reserve(slots) && other.reserve(slots));
  }
  return cache;
}

// The tokens of an answer. Each draft holds the next five tokens of `truth` among wrong siblings.
Tokens answer(Backend& backend, const ToyDecoder& toy, const Tokens& truth, bool paged = false) {
  Decoder decoder(backend, toy.config, toy.tensors, kContext);
  KvPool pool = small_pool(backend, toy);
  TargetSession session(decoder, paged ? scattered_cache(decoder, pool) : decoder.make_cache(),
                        kContext, [](std::uint32_t) { return false; });
  const Tokens prompt = {5, 6, 7, 8};
  Tokens tokens = {
      session.prefill({.base_count = 0, .tokens = prompt, .sampling = {}}).value().next};
  while (tokens.size() < 12) {
    DraftTree tree;
    std::uint32_t parent = 0;
    for (std::size_t i = tokens.size(); i < truth.size() && i < tokens.size() + 5; ++i) {
      tree.add((truth[i] + 1) % kToyVocabulary, parent);
      parent = tree.add(truth[i], parent);
    }
    const VerifiedPath path = session.verify(tree).value();
    for (const std::uint32_t row : path.path) tokens.push_back(tree.token(row));
    tokens.push_back(path.next);
  }
  tokens.resize(12);
  return tokens;
}

TEST(CudaDeterministicModeTest, DraftsDoNotChangeAnswer) {
  const ToyDecoder toy(6);
  const auto backend = make_cuda_backend({.deterministic = true});
  const Tokens plain = answer(*backend, toy, {});
  EXPECT_EQ(answer(*backend, toy, plain), plain);
  EXPECT_EQ(answer(*backend, toy, plain, true), plain);
  EXPECT_EQ(answer(*backend, toy, {}, true), plain);
}

// Drafters beside the target: attention to one row, layers without an input norm, strided rows, and
// a tap that reads the target's cache.
TEST(CudaDraftersTest, MatchReference) {
  const ToyDecoder toy(6);
  const ToyMoa toy_moa(toy, 3, 1);
  const ToyEagle toy_eagle(toy, 3);
  const ToyMedusa toy_medusa(toy, 3, HeadOutputs::shared);
  const Floats features = random_floats(5, 3 * toy.config.layer.dim);
  const auto said = [&](Backend& backend) {
    FeatureNetwork network(backend, toy_eagle.model(), kContext);
    network.extend_memory(0, features);
    network.commit(Tokens{5, 6, 7, 8, 9});
    Floats all = read_logits(network);
    const Floats drafted = expand_chain(network, Tokens{10, 11, 12});
    all.insert(all.end(), drafted.begin(), drafted.end());
    MedusaHeads heads(backend, toy_medusa.config, toy_medusa.tensors);
    const auto newest = std::span(features).last(toy.config.layer.dim);
    const Floats guessed =
        read_matrix(backend, heads.logits(newest, 0, toy_medusa.config.head_count));
    all.insert(all.end(), guessed.begin(), guessed.end());
    Decoder target(backend, toy.config, toy.tensors, kContext);
    KvCache cache = target.make_cache();
    target.append(cache, Tokens{5, 6, 7});
    MoaTap tap(backend, toy_moa.config, toy_moa.tensors);
    Floats rows(3 * std::size_t{moa_row_layout(toy_moa.config).cols()});
    tap.read(cache, 0, 3, rows);
    all.insert(all.end(), rows.begin(), rows.end());
    MoaNetwork moa(backend, toy_moa.config, toy_moa.tensors, kContext);
    moa.extend_memory(0, rows);
    moa.commit(Tokens{5, 6, 7, 8, 9});
    const Floats grown = expand_chain(moa, Tokens{10, 11, 12});
    all.insert(all.end(), grown.begin(), grown.end());
    return all;
  };
  const auto cuda = make_cuda_backend({.deterministic = true});
  const auto reference = make_reference_backend();
  const Floats expected = said(*reference);
  const Floats values = said(*cuda);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 1e-4) << i;
}

TEST(CudaMemoryTest, RepeatedPassAllocatesNothing) {
  const ToyDecoder toy(6);
  for (const bool deterministic : {false, true}) {
    const auto backend = make_cuda_backend({.deterministic = deterministic});
    Decoder decoder(*backend, toy.config, toy.tensors, kContext);
    KvCache cache = decoder.make_cache();
    const Tokens tokens(20, 7);
    Tokens chosen(20);
    Floats log_probs(20);
    const auto pass = [&] {
      decoder.append(cache, tokens);
      const Matrix logits = decoder.logits(0, 20);
      backend->argmax({.logits = logits, .tokens = chosen});
      backend->top_k({.logits = logits, .k = 1, .tokens = chosen, .log_probs = log_probs});
    };
    pass();
    cache.set_length(0);
    const std::uint64_t before = cuda_host::allocation_count();
    pass();
    EXPECT_EQ(cuda_host::allocation_count(), before);
  }
}

// Fails each runtime call once. The caller gets a DeviceError that names the error, and later calls
// succeed.
TEST(CudaFailureTest, FailedCallsThrowDeviceErrorAndLaterCallsSucceed) {
  const ToyDecoder toy(6, 1);
  const auto run = [&](Backend& backend) {
    Decoder decoder(backend, toy.config, toy.tensors, kContext);
    KvCache cache = decoder.make_cache();
    decoder.append(cache, Tokens{3, 4, 5});
    return values_of(backend, decoder.logits(2, 1));
  };
  for (const bool deterministic : {false, true}) {
    const auto backend = make_cuda_backend({.deterministic = deterministic});
    const Floats expected = run(*backend);
    const std::uint64_t before = cuda_host::call_count();
    run(*backend);
    const std::uint64_t calls = cuda_host::call_count() - before;
    ASSERT_GT(calls, 50u);
    for (std::uint64_t call = 0; call < calls; ++call) {
      const cudaError_t error = call % 2 == 0 ? cudaErrorLaunchFailure : cudaErrorMemoryAllocation;
      cuda_host::fail_after(call, error);
      try {
        run(*backend);
        // A failed call in a place that cannot report it, such as a destructor.
      } catch (const DeviceError& e) {
        EXPECT_NE(std::string(e.what()).find("CUDA"), std::string::npos) << e.what();
      }
    }
    EXPECT_TRUE(same_bytes(run(*backend), expected));
  }
}

TEST(CudaFailureTest, OutOfMemoryReportsRequestedSize) {
  const auto backend = make_cuda_backend({});
  cuda_host::fail_after(1, cudaErrorMemoryAllocation);  // after the device is set
  try {
    backend->allocate(3u << 20);
    FAIL() << "expected a DeviceError";
  } catch (const DeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("12 MiB requested"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("--kv-memory"), std::string::npos) << e.what();
  }
}

// Attention of `rows` rows over a prefix; the rows form a tree.
Floats attended(Backend& backend, const HeadShape& heads, std::uint32_t rows,
                std::uint32_t prefix) {
  const std::uint32_t slots = prefix + rows;
  const auto random = [&](std::uint64_t seed, std::uint32_t count, std::uint32_t cols) {
    return matrix_of(backend, count, cols, random_floats(seed, std::size_t{count} * cols));
  };
  const OwnedMatrix q = random(1, rows, heads.query_cols());
  const OwnedMatrix keys = random(2, slots, heads.kv_cols());
  const OwnedMatrix values = random(3, slots, heads.kv_cols());
  const std::vector<AncestorMask> masks = random_tree(4, rows);
  return attend(backend, heads, q.all(), keys.all(), values.all(), prefix, masks);
}

// Every kernel runs in the shared memory that needs no opt-in. Processors older than 8.0 give 64
// KB.
TEST(CudaMemoryTest, SmallBlockMemoryGivesSameBits) {
  const HeadShape heads{.query_heads = 8, .kv_heads = 2, .head_dim = 128};
  const auto attended_with = [&](std::size_t block_memory) {
    cuda_host::set_block_memory(block_memory);
    const Floats y = attended(*make_cuda_backend({}), heads, 17, 70);
    cuda_host::set_block_memory(cuda_host::kBlockMemoryBytesMax);
    return y;
  };
  for (const int version : {75, 90}) {
    cuda_host::set_ptx_version(version);
    const Floats much = attended_with(cuda_host::kBlockMemoryBytesMax);
    EXPECT_TRUE(same_bytes(attended_with(std::size_t{64} << 10), much)) << version;
    EXPECT_TRUE(same_bytes(attended_with(std::size_t{48} << 10), much)) << version;
  }
}

// A plan and its kernel table, in host memory.
struct Planned {
  cuda::AttentionPlan plan{};
  std::vector<std::uint32_t> table;

  Planned(const std::vector<cuda::AttentionPart>& parts, const cuda::Heads& heads,
          std::size_t scratch_floats) {
    table.resize(cuda::attention_table_words(parts.data(), parts.size()));
    EXPECT_EQ(cuda::plan_attention(parts.data(), parts.size(), heads,
                                   {cuda_host::kBlockMemoryBytesMax, true, scratch_floats}, plan,
                                   table.data()),
              cudaSuccess);
  }
  cuda::AttentionRow row(std::uint32_t r) const {
    cuda::AttentionRow of_row{};
    std::memcpy(&of_row, &table[plan.table_sequences * cuda::kSequenceWords + r * cuda::kRowWords],
                sizeof of_row);
    return of_row;
  }
};

// Results are the same with and without graphs, whose launches once differed and shared the scratch
// of one.
TEST(CudaScratchTest, MatchesLaunchWithAndWithoutGraphs) {
  const HeadShape heads{.query_heads = 62, .kv_heads = 62, .head_dim = 4};
  const auto with_graphs = make_cuda_backend({});
  const auto without = make_cuda_backend({.graphs = false});
  EXPECT_TRUE(same_bytes(attended(*without, heads, 1, 514), attended(*with_graphs, heads, 1, 514)));
}

// For any mix of sequences, each sum of each row has its own slot within scratch.
TEST(CudaScratchTest, HasDistinctSlotPerSum) {
  const cuda::Heads heads{.kv_heads = 2, .group = 3, .head_dim = 64};
  const std::size_t bound = std::size_t{8} << 20;
  Random random(9);
  std::uint32_t chunked = 0;
  for (int sample = 0; sample < 200; ++sample) {
    std::vector<std::vector<AncestorMask>> masks;
    std::vector<cuda::AttentionPart> parts;
    const std::uint64_t count = 1 + random.below(20);
    const std::uint64_t longest = random.below(2) == 0 ? 100 : 5000;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto rows = static_cast<std::uint32_t>(1 + random.below(20));
      masks.push_back(random_tree(random(), rows));
      parts.push_back({.rows = rows,
                       .prefix = static_cast<std::uint32_t>(random.below(longest)),
                       .tail_slots = rows,
                       .masks = masks.back()[0].bits.data(),
                       .pages = nullptr,
                       .page_count = 0});
    }
    const Planned planned(parts, heads, bound);
    const std::uint32_t slots = planned.plan.block_splits * cuda::kSplitSlots;
    chunked += planned.plan.block_splits > 1 ? 1 : 0;
    std::uint32_t row = 0;
    std::uint32_t free = 0;  // the first slot after the sums so far
    for (const cuda::AttentionPart& part : parts) {
      for (std::uint32_t r = 0; r < part.rows; ++r, ++row) {
        const cuda::AttentionRow of_row = planned.row(row);
        EXPECT_EQ(of_row.first_sum, static_cast<std::int32_t>(free));
        EXPECT_GE(of_row.head_sums * slots, part.prefix + part.tail_slots);
        EXPECT_GT(of_row.visible, part.prefix);
        EXPECT_LE(of_row.visible, part.prefix + r + 1);
        free += of_row.head_sums * heads.kv_heads * heads.group;
      }
    }
    EXPECT_EQ(row, planned.plan.rows);
    EXPECT_LE(free, planned.plan.sums);
  }
  EXPECT_GT(chunked, 20u);
  EXPECT_LT(chunked, 180u);
}

TEST(CudaScratchTest, AttentionRejectsTooLittleScratch) {
  const cuda::Heads heads{.kv_heads = 2, .group = 1, .head_dim = 4};
  Floats numbers(4096, 1.0f);
  const cuda::Cache cache{.data = reinterpret_cast<std::byte*>(numbers.data()),
                          .type = DType::f32,
                          .stride = 8,
                          .pages = nullptr,
                          .page_slots = 0};
  Floats y(8);
  const Planned planned({{.rows = 1,
                          .prefix = 100,
                          .tail_slots = 0,
                          .masks = nullptr,
                          .pages = nullptr,
                          .page_count = 0}},
                        heads, 1u << 20);
  const std::size_t wanted = cuda::attention_scratch_floats(planned.plan, heads);
  Floats scratch(wanted + 4);
  auto* aligned =
      reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 15) / 16 * 16);
  const auto attend = [&](std::size_t floats) {
    return cuda::attention({.q = {numbers.data(), 8},
                            .keys = cache,
                            .values = cache,
                            .table = planned.table.data(),
                            .plan = planned.plan,
                            .heads = heads,
                            .y = {y.data(), 8},
                            .scratch = aligned,
                            .scratch_floats = floats,
                            .scale = 0.5f,
                            .sinks = nullptr},
                           nullptr);
  };
  EXPECT_EQ(attend(wanted - 1), cudaErrorInvalidValue);
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(attend(wanted), cudaSuccess);
  EXPECT_EQ(y[0], 1.0f);
}

TEST(CudaScratchTest, TopKRejectsTooLittleScratch) {
  constexpr std::uint32_t kCols = 9000;
  const Floats logits(2 * std::size_t{kCols}, 1.0f);
  const std::size_t wanted = cuda::top_k_scratch_words(2, kCols, 256);
  // Guard words that must stay unchanged.
  std::vector<std::uint64_t> scratch(wanted + 1, 7);
  Tokens tokens(2 * 256, 0);
  Floats log_probs(2 * 256);
  const auto choose = [&](std::size_t words) {
    const std::uint64_t before = cuda_host::call_count();
    const cudaError_t status = cuda::top_k({.logits = {logits.data(), kCols},
                                            .rows = 2,
                                            .cols = kCols,
                                            .k = 256,
                                            .scratch = scratch.data(),
                                            .scratch_words = words,
                                            .tokens = tokens.data(),
                                            .log_probs = log_probs.data()},
                                           nullptr);
    return std::pair(status, cuda_host::call_count() - before);
  };
  EXPECT_EQ(choose(wanted - 1), std::pair(cudaErrorInvalidValue, std::uint64_t{0}));
  EXPECT_EQ(choose(wanted), std::pair(cudaSuccess, std::uint64_t{2}));  // launches
  EXPECT_EQ(scratch.back(), 7u);
  EXPECT_EQ(tokens.back(), 255u);
}

// With an 8B model, 256 rows took 1.1 GB after 32768 slots, and 4.4 GB after 131072 slots.
TEST(CudaScratchTest, StaysWithinBoundAtEveryContextLength) {
  const cuda::Heads heads{.kv_heads = 8, .group = 4, .head_dim = 128};
  const std::size_t bound = CudaBackendOptions{}.attention_scratch_bytes / sizeof(float);
  ASSERT_LT(cuda::kAttentionSplitFloatsMax, bound);
  const std::vector<AncestorMask> masks = random_tree(1, 256);
  for (std::uint32_t prefix = 0; prefix <= 1u << 20; prefix += 4096) {
    const std::uint32_t most = std::min(256u, cuda::attention_rows_max(prefix, 256, heads, bound));
    for (std::uint32_t rows = most; rows >= 1; rows -= std::min(rows, 17u)) {
      const Planned planned({{.rows = rows,
                              .prefix = prefix,
                              .tail_slots = 256,
                              .masks = masks[0].bits.data(),
                              .pages = nullptr,
                              .page_count = 0}},
                            heads, bound);
      ASSERT_LE(cuda::attention_scratch_floats(planned.plan, heads), bound)
          << rows << " rows after " << prefix;
    }
  }
  EXPECT_EQ(cuda::attention_rows_max(32768, 256, heads, bound), 48u);
  EXPECT_EQ(cuda::attention_rows_max(131072, 256, heads, bound), 15u);
}

TEST(CudaScratchTest, RowSplitsGiveSameBits) {
  const HeadShape heads{.query_heads = 4, .kv_heads = 2, .head_dim = 8};
  for (const bool graphs : {false, true}) {
    const auto much = make_cuda_backend({.graphs = graphs});
    // One row at a time, and a few.
    const auto least = make_cuda_backend({.graphs = graphs, .attention_scratch_bytes = 1});
    const auto little = make_cuda_backend({.graphs = graphs, .attention_scratch_bytes = 4096});
    const Floats expected = attended(*much, heads, 21, 130);
    EXPECT_TRUE(same_bytes(attended(*least, heads, 21, 130), expected));
    EXPECT_TRUE(same_bytes(attended(*little, heads, 21, 130), expected));
  }
}

// PTX older than the device has no wait instruction after its translation at load time, whatever
// the device supports.
TEST(CudaEarlyStartTest, AppliesToKernelsThatWait) {
  const int kernels[2] = {};
  cudaLaunchAttribute attribute{};
  cuda_host::set_ptx_version(80);
  EXPECT_EQ(cuda::early_start(&kernels[0], attribute), 0u);
  cuda_host::set_ptx_version(90);
  EXPECT_EQ(cuda::early_start(&kernels[1], attribute), 1u);
  EXPECT_EQ(attribute.id, cudaLaunchAttributeProgrammaticStreamSerialization);
  EXPECT_EQ(cuda::early_start(&kernels[0], attribute), 0u);
}

// If a block has little memory, attention raises the limit. A failed launch is not retried in
// another form; the caller gets its error.
TEST(CudaFailureTest, InvalidAttentionLaunchIsReported) {
  const HeadShape heads{.query_heads = 4, .kv_heads = 1, .head_dim = 8};
  const auto backend = make_cuda_backend({.graphs = false});
  attended(*backend, heads, 20, 40);
  std::uint32_t failures = 0;
  const std::uint64_t before = cuda_host::call_count();
  attended(*backend, heads, 20, 40);
  const std::uint64_t calls = cuda_host::call_count() - before;
  for (std::uint64_t call = 0; call < calls; ++call) {
    cuda_host::fail_after(call, cudaErrorInvalidValue);
    try {
      attended(*backend, heads, 20, 40);
    } catch (const DeviceError&) {
      ++failures;
    }
  }
  // The four matrices set the device for their release and cannot report a failure.
  EXPECT_EQ(failures + 4, calls);
}

TEST(CudaDevicesTest, AreListedOrReportedMissing) {
  const auto devices = cuda_devices();
  ASSERT_TRUE(devices);
  EXPECT_EQ(devices->at(0).index, 0);
  cuda_host::fail_after(0, cudaErrorNoDevice);
  const auto none = cuda_devices();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::unsupported);
}

}  // namespace
}  // namespace edgedraft::testing
