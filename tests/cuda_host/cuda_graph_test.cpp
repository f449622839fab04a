#include <cuda_runtime.h>

#include <list>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/cuda/cuda_backend.h"
#include "shared/runtime/decoder.h"
#include "tests/runtime/op_test.h"
#include "tests/support/toy_models.h"

// Passes launched as CUDA graphs have the same bits as without, whatever runs in between and
// whatever fails.
namespace edgedraft::testing {
using namespace server;
namespace {

using Tokens = std::vector<std::uint32_t>;
constexpr std::uint32_t kPositions = 700;
constexpr std::uint32_t kSequences = 3;

// A decoder and sequences with interleaved pages, after a context of synthetic keys and values.
class Rig {
 public:
  explicit Rig(const CudaBackendOptions& options, std::uint32_t context = 8)
      : toy_(6, 1),
        backend_(make_cuda_backend(options)),
        decoder_(*backend_, toy_.config, toy_.tensors, kPositions),
        pool_(*backend_, {.kv_cols = toy_.config.kv_cols(),
                          .page_count = kSequences * (context + 160) / 8,
                          .page_slots = 8,
                          .type = DType::f16}) {
    const std::uint32_t slots = pool_.size().page_count * pool_.size().page_slots;
    const std::uint32_t cols = pool_.size().kv_cols[0];
    for (std::uint32_t layer = 0; layer < toy_.config.layer_count; ++layer) {
      for (const CacheRows& rows : {pool_.keys(layer), pool_.values(layer)}) {
        const OwnedMatrix x =
            matrix_of(*backend_, slots, cols, random_floats(layer, std::size_t{slots} * cols));
        backend_->store({.x = x.all(), .cache = rows, .first = 0});
      }
    }
    for (std::uint32_t i = 0; i < kSequences; ++i) caches_.push_back(decoder_.make_cache(pool_));
    for (std::uint32_t length = 8; length <= context; length += 8) {
      for (KvCache& cache : caches_) EXPECT_TRUE(cache.reserve(length));
    }
    for (KvCache& cache : caches_) cache.set_length(context);
  }

  Backend& backend() { return *backend_; }
  KvCache& cache(std::size_t i) { return caches_[i]; }

  // Runs trees of `rows` rows for the first `sequences` sequences, and keeps the path of each one's
  // last row. Returns all logits and the likeliest tokens.
  Floats pass(std::uint64_t seed, std::uint32_t rows, std::uint32_t sequences) {
    Random random(seed);
    struct Own {
      Tokens tokens;
      Tokens positions;
      Tokens path;
      std::vector<AncestorMask> masks;
    };
    std::vector<Own> own(sequences);
    std::vector<SequenceRows> batch;
    for (std::uint32_t i = 0; i < sequences; ++i) {
      KvCache& cache = caches_[i];
      EXPECT_TRUE(cache.reserve(cache.length() + rows));
      own[i].masks = random_tree(random(), rows);
      for (std::uint32_t r = 0; r < rows; ++r) {
        own[i].tokens.push_back(static_cast<std::uint32_t>(random.below(kToyVocabulary)));
        std::uint32_t depth = 0;
        for (std::uint32_t j = 0; j < r; ++j) depth += own[i].masks[r].test(j) ? 1 : 0;
        own[i].positions.push_back(cache.length() + depth);
        if (own[i].masks[rows - 1].test(r)) own[i].path.push_back(cache.length() + r);
      }
      batch.push_back({.cache = &cache,
                       .tokens = own[i].tokens,
                       .batch = {.positions = own[i].positions,
                                 .prefix = cache.length(),
                                 .first_slot = cache.length(),
                                 .masks = own[i].masks}});
    }
    decoder_.forward(batch);
    const Matrix logits = decoder_.logits(0, rows * sequences);
    Tokens likeliest(rows * sequences);
    backend_->argmax({.logits = logits, .tokens = likeliest});
    Floats results = values_of(*backend_, logits);
    results.insert(results.end(), likeliest.begin(), likeliest.end());
    for (std::uint32_t i = 0; i < sequences; ++i) {
      caches_[i].keep(own[i].path);
      caches_[i].trim();
    }
    return results;
  }

 private:
  ToyDecoder toy_;
  std::unique_ptr<Backend> backend_;
  Decoder decoder_;
  KvPool pool_;
  std::vector<KvCache> caches_;
};

CudaBackendOptions with_graphs(bool graphs) {
  return {.deterministic = true, .graphs = graphs};
}

TEST(CudaGraphTest, RepeatedPassesReplayAsOneLaunchWithSameBits) {
  Rig plain(with_graphs(false));
  Rig graphed(with_graphs(true));
  for (std::uint64_t step = 0; step < 8; ++step) {
    const std::uint64_t before = cuda_host::graph_launch_count();
    const Floats expected = plain.pass(step, 1, kSequences);
    ASSERT_EQ(cuda_host::graph_launch_count(), before) << "graphs are off";
    ASSERT_TRUE(same_bytes(graphed.pass(step, 1, kSequences), expected)) << "step " << step;
    // The first pass grows scratch memory, the second is new, the third is known.
    EXPECT_EQ(cuda_host::graph_launch_count() - before, step < 2 ? 0u : 1u) << "step " << step;
  }
}

// Trees, single rows and varying numbers of sequences, across the prefix length at which attention
// switches to a longer launch.
TEST(CudaGraphTest, AlternatingShapesGiveSameBits) {
  for (const bool deterministic : {true, false}) {
    CudaBackendOptions options = with_graphs(false);
    options.deterministic = deterministic;
    Rig plain(options, 496);
    options.graphs = true;
    Rig graphed(options, 496);
    const std::uint64_t before = cuda_host::graph_launch_count();
    Random random(5);
    for (std::uint64_t step = 0; step < 25; ++step) {
      const std::uint32_t rows = std::array{1u, 1u, 4u, 9u}[random.below(4)];
      const auto sequences = static_cast<std::uint32_t>(1 + random.below(kSequences));
      const Floats expected = plain.pass(step, rows, sequences);
      ASSERT_TRUE(same_bytes(graphed.pass(step, rows, sequences), expected)) << "step " << step;
    }
    EXPECT_GT(graphed.cache(0).length(), 512u);
    EXPECT_GT(cuda_host::graph_launch_count() - before, 5u);
  }
}

TEST(CudaGraphTest, BackendDestroysItsGraphs) {
  const std::uint64_t before = cuda_host::graph_count();
  {
    Rig rig(with_graphs(true));
    for (std::uint64_t step = 0; step < 3; ++step) rig.pass(step, 1, 1);
    EXPECT_GT(cuda_host::graph_count(), before);
  }
  EXPECT_EQ(cuda_host::graph_count(), before);
}

// Gathered work starts before its memory is released.
TEST(CudaGraphTest, MemoryIsReleasedAfterEnqueuedWork) {
  const auto backend = make_cuda_backend(with_graphs(true));
  const OwnedMatrix cache(*backend, 5, 300);
  const Floats numbers = random_floats(1, 300);
  for (std::uint32_t slot = 0; slot < 5; ++slot) {
    {
      const OwnedMatrix x = matrix_of(*backend, 1, 300, numbers);
      backend->store({.x = x.all(), .cache = cache.all(), .first = slot});
    }
    const OwnedMatrix other(*backend, 1, 300);  // may reuse the memory
  }
  for (std::uint32_t slot = 0; slot < 5; ++slot) {
    EXPECT_EQ(values_of(*backend, cache.all().row_range(slot, 1)), numbers) << slot;
  }
}

// More operations than the argument buffer holds at once.
TEST(CudaGraphTest, AnyNumberOfOperationsCanBeGathered) {
  const auto backend = make_cuda_backend(with_graphs(true));
  const OwnedMatrix x = matrix_of(*backend, 1, 2, Floats{3, 5});
  const OwnedMatrix cos_sin = matrix_of(*backend, 2, 2, Floats{1, 0, 0, 1});  // a quarter turn
  std::list<Tokens> positions;  // each at its own address
  for (int i = 0; i < 20000; ++i) {
    positions.emplace_back(1, 1u);
    backend->rope({.x = x.all(),
                   .positions = positions.back(),
                   .cos_sin = cos_sin.all(),
                   .head_dim = 2,
                   .rotated = 2,
                   .style = RopeStyle::halves});
  }
  EXPECT_EQ(values_of(*backend, x.all()), (Floats{3, 5})) << "20,000 quarter turns";
}

// Fails each call of the pass that builds a graph once. Either the pass fails with CUDA's error, or
// only the graph failed and the pass is right. After an out-of-memory error later passes use graphs
// again; any other error disables graphs, is reported once, and no graph is kept.
TEST(CudaGraphTest, FailedGraphFallsBackToPlainLaunches) {
  const auto passes = [](Rig& rig, std::uint64_t first, std::uint64_t count) {
    Floats results;
    for (std::uint64_t step = first; step < first + count; ++step) {
      const Floats some = rig.pass(step, 2, 2);
      results.insert(results.end(), some.begin(), some.end());
    }
    return results;
  };
  Rig plain(with_graphs(false));
  passes(plain, 0, 2);
  const Floats expected = passes(plain, 2, 3);
  std::uint64_t calls = 0;     // calls in the pass
  std::uint64_t launched = 0;  // graphs, by this pass and two more
  {
    Rig rig(with_graphs(true));
    passes(rig, 0, 2);
    const std::uint64_t before = cuda_host::call_count();
    const std::uint64_t launches = cuda_host::graph_launch_count();
    passes(rig, 2, 1);
    calls = cuda_host::call_count() - before;
    passes(rig, 3, 2);
    launched = cuda_host::graph_launch_count() - launches;
  }
  ASSERT_GT(calls, 20u);
  for (const cudaError_t error : {cudaErrorMemoryAllocation, cudaErrorLaunchFailure}) {
    const bool is_for_good = error != cudaErrorMemoryAllocation;
    std::uint32_t without = 0;
    std::uint32_t failed = 0;
    for (std::uint64_t call = 0; call < calls; ++call) {
      SCOPED_TRACE(::testing::Message() << cudaGetErrorName(error) << " of call " << call);
      const std::uint64_t graphs = cuda_host::graph_count();
      std::vector<std::string> notices;
      CudaBackendOptions options = with_graphs(true);
      options.on_notice = [&](const std::string& what) { notices.push_back(what); };
      Rig rig(options);
      passes(rig, 0, 2);
      cuda_host::fail_after(call, error);
      std::uint64_t launches = cuda_host::graph_launch_count();
      try {
        const Floats results = passes(rig, 2, 3);
        EXPECT_TRUE(same_bytes(results, expected));
      } catch (const DeviceError& e) {
        EXPECT_NE(std::string(e.what()).find("CUDA"), std::string::npos) << e.what();
        EXPECT_TRUE(notices.empty());
        ++failed;
        continue;
      }
      // Otherwise the failing call could not report it.
      if (cuda_host::graph_launch_count() - launches < launched) ++without;
      launches = cuda_host::graph_launch_count();
      passes(rig, 5, 3);
      if (notices.empty()) {
        EXPECT_GT(cuda_host::graph_launch_count(), launches);
        continue;
      }
      EXPECT_TRUE(is_for_good);
      ASSERT_EQ(notices.size(), 1u);
      EXPECT_NE(notices[0].find("unspecified launch failure"), std::string::npos) << notices[0];
      EXPECT_NE(notices[0].find("--no-cuda-graphs"), std::string::npos);
      EXPECT_EQ(cuda_host::graph_launch_count(), launches);
      EXPECT_EQ(cuda_host::graph_count(), graphs);
    }
    EXPECT_GE(without, 3u) << "capture, its end, instantiation";
    EXPECT_GE(failed, 3u);
  }
}

// A thread that has not set a device uses the first one, which may belong to another program.
TEST(CudaGraphTest, EveryThreadSetsDeviceFirst) {
  for (const bool graphs : {false, true}) {
    Rig rig(with_graphs(graphs));
    std::optional<OwnedMatrix> memory(std::in_place, rig.backend(), 2, 2);
    const std::uint64_t before = cuda_host::deviceless_call_count();
    std::thread([&] { rig.pass(0, 1, 1); }).join();
    EXPECT_EQ(cuda_host::deviceless_call_count(), before) << "pass";
    std::thread([&] { memory.reset(); }).join();
    EXPECT_EQ(cuda_host::deviceless_call_count(), before) << "release of memory";
  }
}

// A failed launch is reported to the next caller that waits, however long ago it was enqueued.
TEST(CudaGraphTest, FailedLaunchIsReportedOnce) {
  const auto backend = make_cuda_backend(with_graphs(true));
  const OwnedMatrix cache(*backend, 2, 8);
  const OwnedMatrix x = matrix_of(*backend, 1, 8, random_floats(1, 8));
  Floats read(16);
  backend->store({.x = x.all(), .cache = cache.all(), .first = 0});
  cuda_host::fail_after(3, cudaErrorLaunchFailure);  // after the device is set and the copy
  EXPECT_THROW(backend->read(cache.all(), read), DeviceError);
  backend->read(cache.all(), read);
  EXPECT_EQ(read, Floats(16, 0.0f)) << "the failed list is dropped";
  // Also to callers that only wait or read no numbers. Each list is new, so no graph is built.
  const auto store_columns = [&](std::uint32_t count) {
    backend->store({.x = x.all().column_range(0, count),
                    .cache = cache.all().column_range(0, count),
                    .first = 0});
    cuda_host::fail_after(3, cudaErrorLaunchFailure);
  };
  store_columns(4);
  EXPECT_THROW(backend->wait(), DeviceError);
  store_columns(2);
  EXPECT_THROW(backend->read(cache.rows(0), {}), DeviceError);
  {
    const OwnedMatrix temporary = matrix_of(*backend, 1, 8, random_floats(2, 8));
    backend->store({.x = temporary.all(), .cache = cache.all(), .first = 1});
    cuda_host::fail_after(3, cudaErrorLaunchFailure);
  }
  EXPECT_THROW(backend->read(cache.all(), read), DeviceError) << "failure during a release";
  backend->store({.x = x.all(), .cache = cache.all(), .first = 1});
  backend->read(cache.all(), read);
  EXPECT_EQ(Floats(read.begin() + 8, read.end()), random_floats(1, 8));
}

}  // namespace
}  // namespace edgedraft::testing
