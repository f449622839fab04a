#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "server/cuda/cuda_backend.h"
#include "shared/runtime/decoder.h"
#include "tests/runtime/op_test.h"
#include "tests/support/toy_models.h"

// Any number of sessions in a pass share its launches, and each has the same bits as alone.
namespace edgedraft::testing {
using namespace server;
namespace {

using Tokens = std::vector<std::uint32_t>;
constexpr std::uint32_t kPositions = 900;
constexpr std::uint32_t kPageSlots = 8;
constexpr std::uint32_t kLayers = 2;

struct Shape {
  std::uint32_t context;
  std::uint32_t rows;
  enum Rows : std::uint8_t { chain, tree } kind = chain;
};

// A decoder whose layers have weights of this type.
ToyDecoder toy_decoder(DType weights) {
  ToyDecoder toy(6, kLayers);
  if (weights == DType::f32) return toy;
  LayerShape& shape = toy.config.layer;
  shape.ffn_dim = 64;  // whole blocks
  for (LayerTensors& layer : toy.tensors.layers) {
    for (TensorView* tensor : {&layer.attn_q, &layer.attn_k, &layer.attn_v, &layer.attn_output}) {
      *tensor = toy.pool->normal(tensor->rows, tensor->cols, 0.3, weights);
    }
    layer.ffn_gate = toy.pool->normal(shape.ffn_dim, shape.dim, 0.3, weights);
    layer.ffn_up = toy.pool->normal(shape.ffn_dim, shape.dim, 0.3, weights);
    layer.ffn_down = toy.pool->normal(shape.dim, shape.ffn_dim, 0.3, weights);
  }
  return toy;
}

// Sessions after contexts of synthetic keys and values, with interleaved pages.
class Sessions {
 public:
  Sessions(const CudaBackendOptions& options, DType type, const std::vector<Shape>& shapes,
           std::vector<std::uint32_t> states = {}, DType weights = DType::f32)
      : toy_(toy_decoder(weights)),
        backend_(make_cuda_backend(options)),
        decoder_(*backend_, toy_.config, toy_.tensors, kPositions, std::move(states)),
        pool_(*backend_, decoder_.pool_size(pages_for(shapes), type, kPageSlots)) {
    fill();
    Random random(7);
    for (const Shape& shape : shapes) sessions_.push_back(make(shape, random()));
    for (std::uint32_t slots = kPageSlots; slots < kPositions; slots += kPageSlots) {
      for (Session& s : sessions_) {
        if (slots < s.shape.context + s.shape.rows + kPageSlots) {
          EXPECT_TRUE(s.cache.reserve(slots));
        }
      }
    }
    for (Session& s : sessions_) s.cache.set_length(s.shape.context);
  }

  Backend& backend() { return *backend_; }
  KvCache& cache(std::size_t i) { return sessions_[i].cache; }

  // A pass of these sessions, in this order. Returns the logits of each.
  std::vector<Floats> pass(const std::vector<std::size_t>& which) {
    std::vector<SequenceRows> batch;
    std::uint32_t rows = 0;
    for (const std::size_t i : which) {
      Session& s = sessions_[i];
      batch.push_back({.cache = &s.cache,
                       .tokens = s.tokens,
                       .batch = {.positions = s.positions,
                                 .prefix = s.shape.context,
                                 .first_slot = s.shape.context,
                                 .masks = s.masks}});
      rows += s.shape.rows;
    }
    decoder_.forward(batch);
    const Floats all = values_of(*backend_, decoder_.logits(0, rows));
    std::vector<Floats> each;
    auto from = all.begin();
    for (const std::size_t i : which) {
      const auto to = from + sessions_[i].shape.rows * kToyVocabulary;
      each.emplace_back(from, to);
      from = to;
    }
    return each;
  }

  // The state plane after a session's rows.
  Floats state(std::size_t i, std::uint32_t state) {
    const Session& s = sessions_[i];
    Floats numbers;
    for (std::uint32_t row = 0; row < s.shape.rows; ++row) {
      const CacheRows slot = s.cache.states(state).run(s.shape.context + row, 1);
      Floats one(slot.cols);
      backend_->read_cache(slot, one);
      numbers.insert(numbers.end(), one.begin(), one.end());
    }
    return numbers;
  }

 private:
  struct Session {
    Shape shape;
    KvCache cache;
    Tokens tokens;
    Tokens positions;
    std::vector<AncestorMask> masks;
  };

  static std::uint32_t pages_for(const std::vector<Shape>& shapes) {
    std::uint32_t pages = 0;
    for (const Shape& shape : shapes) pages += (shape.context + shape.rows) / kPageSlots + 2;
    return pages;
  }

  void fill() {
    const std::uint32_t slots = pool_.size().page_count * kPageSlots;
    const std::uint32_t cols = pool_.size().kv_cols[0];
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      for (const CacheRows& rows : {pool_.keys(layer), pool_.values(layer)}) {
        const OwnedMatrix x =
            matrix_of(*backend_, slots, cols, random_floats(layer, std::size_t{slots} * cols));
        backend_->store({.x = x.all(), .cache = rows, .first = 0});
      }
    }
  }

  Session make(const Shape& shape, std::uint64_t seed) {
    Session s{.shape = shape,
              .cache = decoder_.make_cache(pool_),
              .tokens = {},
              .positions = {},
              .masks = {}};
    s.masks = shape.kind == Shape::tree ? random_tree(seed, shape.rows) : causal_masks(shape.rows);
    Random random(seed);
    for (std::uint32_t row = 0; row < shape.rows; ++row) {
      s.tokens.push_back(static_cast<std::uint32_t>(random.below(kToyVocabulary)));
      std::uint32_t depth = 0;
      for (std::uint32_t j = 0; j < row; ++j) depth += s.masks[row].test(j) ? 1 : 0;
      s.positions.push_back(shape.context + depth);
    }
    return s;
  }

  ToyDecoder toy_;
  std::unique_ptr<Backend> backend_;
  Decoder decoder_;
  KvPool pool_;
  std::vector<Session> sessions_;
};

std::vector<std::size_t> all_of(std::size_t count) {
  std::vector<std::size_t> which(count);
  for (std::size_t i = 0; i < count; ++i) which[i] = i;
  return which;
}

std::uint64_t kernels_of_pass(const std::vector<Shape>& shapes, bool graphs,
                              std::vector<std::uint32_t> states, DType weights) {
  Sessions sessions({.deterministic = true, .graphs = graphs}, DType::f16, shapes,
                    std::move(states), weights);
  const auto which = all_of(shapes.size());
  sessions.pass(which);
  const std::uint64_t before = cuda_host::kernel_count();
  sessions.pass(which);
  return cuda_host::kernel_count() - before;
}

// Includes sessions that keep decoder states for a tap.
TEST(CudaSessionsTest, ShareLaunchesOfPass) {
  std::vector<Shape> mixed;
  for (std::uint32_t i = 0; i < 16; ++i) {
    mixed.push_back({.context = 1 + 37 * i, .rows = 1 + i % 3 * 4, .kind = Shape::tree});
  }
  // Two norms, rotation and stores, two of attention, SwiGLU, four matmuls.
  constexpr std::uint64_t kFloatLayer = 10;
  // Norms and SwiGLU quantize their outputs; attention's output takes one more launch.
  constexpr std::uint64_t kQuantizedLayer = kFloatLayer + 1;
  for (const auto& [weights, layer] :
       {std::pair{DType::f32, kFloatLayer}, std::pair{DType::q8_0, kQuantizedLayer}}) {
    for (const bool graphs : {false, true}) {
      for (const std::vector<std::uint32_t>& states :
           {std::vector<std::uint32_t>{}, std::vector<std::uint32_t>{1, kLayers}}) {
        // The embedding, the last norm and the head; one store per state.
        const std::uint64_t expected = kLayers * layer + 3 + states.size();
        for (const auto& shapes : {std::vector<Shape>{{.context = 40, .rows = 1}}, mixed,
                                   std::vector<Shape>(64, {.context = 40, .rows = 1})}) {
          EXPECT_EQ(kernels_of_pass(shapes, graphs, states, weights), expected)
              << traits(weights).name << ", " << shapes.size() << " sessions, " << states.size()
              << " states" << (graphs ? ", graphs" : "");
        }
      }
    }
  }
}

TEST(CudaSessionsTest, KeepingSlotsInPlaceLaunchesNothing) {
  Sessions sessions({}, DType::f16, {{.context = 40, .rows = 6, .kind = Shape::tree}}, {1});
  sessions.pass({0});
  const auto kernels_to_keep = [&](const std::vector<std::uint32_t>& slots) {
    sessions.cache(0).set_length(40);
    EXPECT_TRUE(sessions.cache(0).reserve(46));
    const std::uint64_t before = cuda_host::kernel_count();
    sessions.cache(0).keep(slots);
    EXPECT_EQ(sessions.cache(0).length(), 40 + slots.size());
    return cuda_host::kernel_count() - before;
  };
  EXPECT_EQ(kernels_to_keep({40}), 0u);
  EXPECT_EQ(kernels_to_keep({40, 41, 42}), 0u);
  // Keys and values of each layer, and one state.
  EXPECT_EQ(kernels_to_keep({40, 41, 43}), 2 * kLayers + 1);
}

TEST(CudaSessionsTest, GiveSameBitsTogetherAndAlone) {
  const std::vector<Shape> shapes = {
      {.context = 0, .rows = 3},
      {.context = 40, .rows = 1},
      {.context = 31, .rows = 33, .kind = Shape::tree},
      {.context = 600, .rows = 1},
      {.context = 32, .rows = 2},
      {.context = 1, .rows = 9, .kind = Shape::tree},
      {.context = 130, .rows = 70},
      {.context = 257, .rows = 62, .kind = Shape::tree},
  };
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const bool graphs : {false, true}) {
      Sessions sessions({.deterministic = true, .graphs = graphs}, type, shapes, {1, kLayers});
      std::vector<Floats> alone;
      std::vector<Floats> states;
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        alone.push_back(sessions.pass({i})[0]);
        states.push_back(sessions.state(i, 1));
      }
      auto which = all_of(shapes.size());
      for (int turn = 0; turn < 3; ++turn) {
        const std::vector<Floats> together = sessions.pass(which);
        for (std::size_t at = 0; at < which.size(); ++at) {
          EXPECT_TRUE(same_bytes(together[at], alone[which[at]]))
              << traits(type).name << ", session " << which[at] << " in turn " << turn;
          EXPECT_TRUE(same_bytes(sessions.state(which[at], 1), states[which[at]]))
              << "states of session " << which[at];
        }
        std::rotate(which.begin(), which.begin() + 3, which.end());
        if (turn == 1) which.pop_back();
      }
    }
  }
}

// With this many blocks each takes a chunk of splits, while a session alone has one block per
// split.
TEST(CudaSessionsTest, GiveSameBitsInChunks) {
  std::vector<Shape> shapes;
  for (std::uint32_t i = 0; i < 40; ++i) shapes.push_back({.context = 400 + 11 * i, .rows = 1});
  Sessions sessions({.deterministic = true}, DType::f16, shapes);
  const std::vector<Floats> together = sessions.pass(all_of(shapes.size()));
  for (std::size_t i = 0; i < shapes.size(); i += 3) {
    EXPECT_TRUE(same_bytes(sessions.pass({i})[0], together[i])) << "session " << i;
  }
}

// Short scratch cuts their rows at any point.
TEST(CudaSessionsTest, GiveSameBitsWithLittleScratch) {
  const std::vector<Shape> shapes = {{.context = 40, .rows = 9, .kind = Shape::tree},
                                     {.context = 700, .rows = 5},
                                     {.context = 3, .rows = 1},
                                     {.context = 90, .rows = 21, .kind = Shape::tree}};
  const auto which = all_of(shapes.size());
  Sessions much({.deterministic = true}, DType::f32, shapes);
  const std::vector<Floats> expected = much.pass(which);
  for (const std::uint64_t bytes : {1u, 4096u, 20000u}) {
    for (const bool graphs : {false, true}) {
      Sessions little({.deterministic = true, .graphs = graphs, .attention_scratch_bytes = bytes},
                      DType::f32, shapes);
      const std::vector<Floats> values = little.pass(which);
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_TRUE(same_bytes(values[i], expected[i])) << bytes << " bytes, session " << i;
      }
    }
  }
}

// A graph depends neither on the sessions of its rows nor on the length of their text.
TEST(CudaSessionsTest, ReuseGraphInAnyOrder) {
  const std::vector<Shape> shapes = {{.context = 40, .rows = 9, .kind = Shape::tree},
                                     {.context = 500, .rows = 4},
                                     {.context = 3, .rows = 1},
                                     {.context = 90, .rows = 7, .kind = Shape::tree}};
  Sessions sessions({.deterministic = true}, DType::f16, shapes);
  std::vector<std::size_t> which = all_of(shapes.size());
  const std::vector<Floats> expected = sessions.pass(which);
  sessions.pass(which);
  const std::uint64_t before = cuda_host::graph_launch_count();
  for (std::uint64_t turn = 1; turn <= 4; ++turn) {
    std::rotate(which.begin(), which.begin() + 1, which.end());
    const std::vector<Floats> values = sessions.pass(which);
    for (std::size_t i = 0; i < which.size(); ++i) {
      EXPECT_TRUE(same_bytes(values[i], expected[which[i]])) << "session " << which[i];
    }
    EXPECT_EQ(cuda_host::graph_launch_count() - before, turn);
  }
}

}  // namespace
}  // namespace edgedraft::testing
