#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cuda/attention.h"
#include "server/cuda/cuda_arguments.h"
#include "server/cuda/cuda_memory.h"
#include "shared/runtime/backend.h"

namespace edgedraft::server {

// Cache operations for rows of several sequences. Sequences with adjacent rows and caches in the
// same memory, such as a pool's, share a launch. A row's bits do not depend on the other rows.
class CudaSequences {
 public:
  // `scratch_bytes`: see CudaBackendOptions::attention_scratch_bytes.
  // Requires  queue and arguments outlive it
  CudaSequences(CudaQueue& queue, CudaArguments& arguments, std::uint64_t scratch_bytes);

  // Requires  checked operations
  void rotate_and_store(const RopeStoreOp& op);
  void store(std::span<const StoreOp> ops);
  void attend(std::span<const AttentionOp> ops);
  std::uint32_t head_dim_max() const { return cuda::attention_head_dim_max(limits_); }

 private:
  // A launch's plan and table.
  struct Planned {
    std::optional<HeadShape> heads;  // empty: none yet
    cuda::AttentionPlan plan{};
    std::vector<std::uint32_t> table;
  };
  // Rows of one attention launch.
  struct Launch {
    Matrix q;  // from the first row on
    Matrix y;
    CacheRows keys;
    CacheRows values;
    std::uint32_t page_slots;
    HeadShape heads;
    float scale;
    Weight sinks;
  };

  template <class Args>
  void enqueue(cudaError_t (*launcher)(const Args&, cudaStream_t), const Args& args);
  void add(const AttentionOp& op);
  bool has_room_for(const cuda::AttentionPart& part, std::size_t floats) const;
  cudaError_t plan_launch(Planned& planned);
  void launch_attention();

  CudaQueue& queue_;
  CudaArguments& arguments_;
  CudaScratch scratch_{queue_};
  cuda::AttentionLimits limits_{};

  // Kept so that calls do not allocate.
  std::vector<std::uint32_t> places_;

  // The last launches without windows and with them, which alternate in some models. The next layer
  // of the same kind usually repeats its launch, and its table is uploaded once.
  Planned whole_;
  Planned windowed_;

  // The launch under construction.
  Launch launch_{};
  std::vector<cuda::AttentionPart> parts_;
  std::vector<std::uint32_t> begins_;  // of windows, of all rows that attend() adds
  std::uint32_t rows_ = 0;
  std::size_t words_ = 0;        // table words besides those for rows
  std::size_t floats_left_ = 0;  // floats left in scratch
};

}  // namespace edgedraft::server
