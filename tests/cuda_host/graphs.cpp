#include <cuda_runtime.h>

#include <memory>
#include <vector>

// Captures and graphs of include/cuda_runtime.h.

using Works = std::vector<std::function<cudaError_t()>>;

struct CUgraph_st {
  Works works;
};
struct CUgraphExec_st {
  Works works;
};

namespace {

std::unique_ptr<CUgraph_st> capture;  // null: no capture
bool spoilt = false;
std::uint64_t launches = 0;
std::uint64_t graphs = 0;

}  // namespace

namespace edgedraft::cuda_host {

cudaError_t enqueue(std::function<cudaError_t()> work) {
  if (!capture) return work();
  capture->works.push_back(std::move(work));
  return cudaSuccess;
}

cudaError_t outside_capture() {
  if (!capture) return cudaSuccess;
  spoilt = true;
  return cudaErrorStreamCaptureUnsupported;
}

std::uint64_t graph_launch_count() {
  return launches;
}

std::uint64_t graph_count() {
  return graphs;
}

}  // namespace edgedraft::cuda_host

using edgedraft::cuda_host::next_call;

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  if (const cudaError_t error = next_call(); error != cudaSuccess) return error;
  if (capture) return cudaErrorInvalidValue;
  capture = std::make_unique<CUgraph_st>();
  spoilt = false;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!capture) return cudaErrorInvalidValue;
  const auto captured = std::move(capture);
  if (const cudaError_t error = next_call(); error != cudaSuccess) return error;
  if (spoilt) return cudaErrorStreamCaptureInvalidated;
  *graph = new CUgraph_st(*captured);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  if (const cudaError_t error = next_call(); error != cudaSuccess) return error;
  *executable = new CUgraphExec_st{graph->works};
  ++graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  if (const cudaError_t error = next_call(); error != cudaSuccess) return error;
  if (capture) return cudaErrorStreamCaptureUnsupported;
  ++launches;
  for (const auto& work : executable->works) {
    if (const cudaError_t error = work(); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  --graphs;
  delete executable;
  return cudaSuccess;
}
