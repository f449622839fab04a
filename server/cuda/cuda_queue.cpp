#include "server/cuda/cuda_queue.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace edgedraft {
namespace {

// A decode step has one a number of sessions and stretch of context; a graph of 500 launches takes
// some hundred KiB.
constexpr std::size_t kGraphsMax = 64;
// Lists that came once: enough of them that a shape which comes now and then is known again.
constexpr std::size_t kSeenMax = 256;

void destroy(cudaGraphExec_t executable) {
  static_cast<void>(cudaGraphExecDestroy(executable));
}

}  // namespace

CudaQueue::CudaQueue(Options options) : options_(std::move(options)), gathers_(options_.graphs) {
  try_cuda(cudaSetDevice(options_.device), "choosing the device");
  try_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  cudaMemPool_t pool = nullptr;
  try_cuda(cudaDeviceGetDefaultMemPool(&pool, options_.device), "finding the memory pool");
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
  try_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
           "setting up the memory pool");
}

CudaQueue::~CudaQueue() {
  static_cast<void>(cudaStreamSynchronize(stream_));
  for (const auto& [hash, graph] : graphs_) destroy(graph.executable);
  static_cast<void>(cudaStreamDestroy(stream_));
}

cudaStream_t CudaQueue::use() const {
  try_cuda(cudaSetDevice(options_.device), "choosing the device");
  return stream_;
}

cudaStream_t CudaQueue::stream() {
  start();
  return use();
}

cudaStream_t CudaQueue::stream_for_release() noexcept {
  try {
    start();
  } catch (const DeviceError& e) {
    failed_ = e.what();
  }
  return stream_;
}

void CudaQueue::abandon() noexcept {
  list_.clear();
  failed_.clear();
  gathers_ = false;
}

void CudaQueue::wait(const char* what) {
  try_cuda(cudaStreamSynchronize(stream()), what);
}

void CudaQueue::gather(const Launch& launch, const std::byte* args) {
  const auto* head = reinterpret_cast<const std::byte*>(&launch);
  list_.insert(list_.end(), head, head + sizeof launch);
  list_.insert(list_.end(), args, args + launch.bytes_count);
}

void CudaQueue::start() {
  if (!failed_.empty()) {
    list_.clear();
    throw DeviceError(std::exchange(failed_, {}));
  }
  if (list_.empty()) return;
  // Out of the way first: what fails must not be run again.
  started_.swap(list_);
  list_.clear();
  use();
  if (prepare_) prepare_(stream_);
  const std::size_t hash = std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(started_.data()), started_.size()});
  Graph* graph = nullptr;
  if (const auto found = graphs_.find(hash); found != graphs_.end()) {
    if (found->second.list == started_) graph = &found->second;
  } else if (gathers_ && seen_before(hash)) {
    graph = make_graph(hash, started_);
  }
  if (graph == nullptr) {
    run_list(started_);
    return;
  }
  graph->used = ++uses_;
  try_cuda(cudaGraphLaunch(graph->executable, stream_), "starting a graph");
}

void CudaQueue::run_list(const List& list) {
  for (std::size_t at = 0; at < list.size();) {
    Launch launch;
    std::memcpy(&launch, list.data() + at, sizeof launch);
    at += sizeof launch;
    try_cuda(launch.run(launch.launcher, list.data() + at, stream_), "starting a kernel");
    at += launch.bytes_count;
  }
}

bool CudaQueue::seen_before(std::size_t hash) {
  if (const auto found = std::find(seen_.begin(), seen_.end(), hash); found != seen_.end()) {
    return true;
  }
  if (seen_.size() < kSeenMax) {
    seen_.push_back(hash);
  } else {
    seen_[seen_next_++ % kSeenMax] = hash;
  }
  return false;
}

CudaQueue::Graph* CudaQueue::make_graph(std::size_t hash, const List& list) {
  if (graphs_.size() >= kGraphsMax) {
    const auto oldest = std::min_element(
        graphs_.begin(), graphs_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    // It may be running.
    try_cuda(cudaStreamSynchronize(stream_), "waiting for the device");
    destroy(oldest->second.executable);
    graphs_.erase(oldest);
  }
  cudaGraphExec_t executable = nullptr;
  try {
    const cudaGraph_t captured = capture(list);
    const cudaError_t status = cudaGraphInstantiate(&executable, captured, 0);
    static_cast<void>(cudaGraphDestroy(captured));
    try_cuda(status, "making a graph");
  } catch (const DeviceError& e) {
    give_up_graphs(e.what());
    return nullptr;
  }
  return &graphs_.emplace(hash, Graph{.list = list, .executable = executable, .used = 0})
              .first->second;
}

cudaGraph_t CudaQueue::capture(const List& list) {
  // Captures this thread alone: others may be loading something.
  try_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capturing a graph");
  cudaGraph_t graph = nullptr;
  try {
    run_list(list);
  } catch (const DeviceError&) {
    if (cudaStreamEndCapture(stream_, &graph) != cudaSuccess) static_cast<void>(cudaGetLastError());
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    throw;
  }
  try_cuda(cudaStreamEndCapture(stream_, &graph), "capturing a graph");
  return graph;
}

void CudaQueue::give_up_graphs(const std::string& why) {
  gathers_ = false;
  if (!options_.on_notice) return;
  options_.on_notice(
      "CUDA graphs cannot be used, so every kernel is started by itself, which is "
      "slower for small models: " +
      why + ". --no-cuda-graphs does without from the start");
}

}  // namespace edgedraft
