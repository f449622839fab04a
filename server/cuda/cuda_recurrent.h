#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/ops.h"
#include "server/cuda/cuda_arguments.h"
#include "server/cuda/cuda_memory.h"
#include "shared/runtime/backend.h"

namespace edgedraft::server {

// Recurrent operations. All sequences of a call share its launches.
class CudaRecurrent {
 public:
  // Requires  queue and arguments outlive it
  CudaRecurrent(CudaQueue& queue, CudaArguments& arguments)
      : queue_(queue), arguments_(arguments) {}

  // Requires  checked operations
  void convolve(const ConvolutionOp& op);
  void delta_rule(const DeltaRuleOp& op);

 private:
  // Uploads what the kernels need to know of the sequences.
  cuda::RecurrentCall upload(std::span<const RecurrentRows> sequences);

  CudaQueue& queue_;
  CudaArguments& arguments_;
  CudaScratch scratch_{queue_};

  // Kept so that calls do not allocate.
  std::vector<std::uint32_t> words_;
  std::vector<cuda::RecurrentSequence> sequences_;
};

}  // namespace edgedraft::server
