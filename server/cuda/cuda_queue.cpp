#include "server/cuda/cuda_queue.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace edgedraft::server {
namespace {

// One graph per session count and context range of a decode step; a graph of 500 launches takes a
// few hundred KiB. Beyond it, the oldest is replaced.
constexpr std::size_t kGraphsMax = 64;
// Remembered hashes of lists seen once; enough to recognize shapes that recur rarely.
constexpr std::size_t kSeenMax = 256;

void destroy(cudaGraphExec_t executable) {
  static_cast<void>(cudaGraphExecDestroy(executable));
}

}  // namespace

CudaQueue::CudaQueue(Options options) : options_(std::move(options)), gathers_(options_.graphs) {
  try_cuda(cudaSetDevice(options_.device), "selecting the device");
  try_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  cudaMemPool_t pool = nullptr;
  try_cuda(cudaDeviceGetDefaultMemPool(&pool, options_.device), "getting the memory pool");
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
  try_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
           "setting up the memory pool");
}

CudaQueue::~CudaQueue() {
  drop_graphs();
  static_cast<void>(cudaStreamDestroy(stream_));
}

void CudaQueue::choose_device() const {
  try_cuda(cudaSetDevice(options_.device), "selecting the device");
}

cudaStream_t CudaQueue::use() const {
  choose_device();
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
  static_cast<void>(cudaSetDevice(options_.device));
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
  // Cleared first: a failed list must not run again.
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
    try_cuda(run_list(started_), "launching a kernel");
    return;
  }
  graph->used = ++uses_;
  try_cuda(cudaGraphLaunch(graph->executable, stream_), "launching a graph");
}

cudaError_t CudaQueue::run_list(const List& list) {
  for (std::size_t at = 0; at < list.size();) {
    Launch launch;
    std::memcpy(&launch, list.data() + at, sizeof launch);
    at += sizeof launch;
    const cudaError_t status = launch.run(launch.launcher, list.data() + at, stream_);
    if (status != cudaSuccess) return status;
    at += launch.bytes_count;
  }
  return cudaSuccess;
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
  if (const cudaError_t status = instantiate(list, executable); status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // clears the error, so that the next call does not
                                            // report it again
    do_without_graph(status);
    return nullptr;
  }
  return &graphs_.emplace(hash, Graph{.list = list, .executable = executable, .used = 0})
              .first->second;
}

cudaError_t CudaQueue::instantiate(const List& list, cudaGraphExec_t& executable) {
  // Captures this thread only: others may be loading data.
  if (const cudaError_t status = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
      status != cudaSuccess) {
    return status;
  }
  const cudaError_t launched = run_list(list);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
  cudaError_t status = launched != cudaSuccess ? launched : ended;
  if (status == cudaSuccess) status = cudaGraphInstantiate(&executable, graph, 0);
  if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  return status;
}

void CudaQueue::do_without_graph(cudaError_t why) {
  // Frees graph memory, which is needed now or no longer used.
  drop_graphs();
  // Memory may be available again soon: repeating lists are retried.
  seen_.clear();
  if (why == cudaErrorMemoryAllocation) return;
  gathers_ = false;
  if (!options_.on_notice) return;
  options_.on_notice(
      std::string("CUDA graphs failed; kernels are launched one by one, which is slower for "
                  "small models: ") +
      cudaGetErrorString(why) + " (" + cudaGetErrorName(why) +
      "); --no-cuda-graphs disables graphs from the start");
}

void CudaQueue::drop_graphs() {
  // Some may be running.
  static_cast<void>(cudaStreamSynchronize(stream_));
  for (const auto& [hash, graph] : graphs_) destroy(graph.executable);
  graphs_.clear();
}

}  // namespace edgedraft::server
