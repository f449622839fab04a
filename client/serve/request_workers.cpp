#include "client/serve/request_workers.h"

#include <algorithm>

namespace edgedraft::client {
namespace {

// Cost of a request besides its bytes.
constexpr std::uint64_t kRequestBytes = 1u << 10;

}  // namespace

RequestWorkers::RequestWorkers() {
  for (std::size_t largest = 0; largest < queues_.size(); ++largest) {
    threads_.emplace_back([this, largest] { run(largest); });
  }
}

RequestWorkers::~RequestWorkers() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::uint64_t RequestWorkers::post(std::size_t bytes, Job job) {
  std::uint64_t ticket = 0;
  {
    const std::scoped_lock lock(mutex_);
    ticket = ++last_ticket_;
    const std::pair turn(clock_ + kRequestBytes + bytes, ticket);
    queues_[class_of(bytes)].emplace(turn, std::move(job));
  }
  changed_.notify_all();
  return ticket;
}

void RequestWorkers::drop(std::uint64_t ticket) {
  Queue::node_type dropped;  // destroyed without the lock: a job may hold the last copy of a reply
  const std::scoped_lock lock(mutex_);
  for (Queue& queue : queues_) {
    const auto found = std::ranges::find_if(
        queue, [ticket](const auto& job) { return job.first.second == ticket; });
    if (found == queue.end()) continue;
    dropped = queue.extract(found);
    return;
  }
}

std::size_t RequestWorkers::class_of(std::size_t bytes) {
  return bytes <= kSmallBytesMax ? 0 : bytes <= kMediumBytesMax ? 1 : 2;
}

RequestWorkers::Queue* RequestWorkers::next_queue(std::size_t largest) {
  Queue* next = nullptr;
  for (std::size_t i = 0; i <= largest; ++i) {
    Queue& queue = queues_[i];
    if (queue.empty()) continue;
    if (next == nullptr || queue.begin()->first < next->begin()->first) next = &queue;
  }
  return next;
}

void RequestWorkers::run(std::size_t largest) {
  std::unique_lock lock(mutex_);
  for (;;) {
    Queue* queue = nullptr;
    changed_.wait(lock, [&] { return is_over_ || (queue = next_queue(largest)) != nullptr; });
    if (is_over_) return;
    auto next = queue->extract(queue->begin());
    clock_ = std::max(clock_, next.key().first);
    lock.unlock();
    next.mapped()();
    next = {};  // frees the job before the next turn
    lock.lock();
  }
}

}  // namespace edgedraft::client
