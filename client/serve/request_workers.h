#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace edgedraft::client {

// Threads for work that takes long per byte of a request: parsing, looking for private text,
// tokenising and compiling schemas. Each thread takes requests up to a size of its own, so a small
// request never waits for larger ones to end. Among waiting requests, the turn depends on arrival
// and size: small ones pass large ones, and none waits forever. One large request is processed at a
// time, which bounds memory.
// Source    Golestani, A Self-Clocked Fair Queueing Scheme for Broadband Applications, 1994
//
// Threads   any
class RequestWorkers {
 public:
  static constexpr std::size_t kSmallBytesMax = 64u << 10;
  static constexpr std::size_t kMediumBytesMax = 512u << 10;

  RequestWorkers();
  // Waits for jobs in progress and drops the others.
  ~RequestWorkers();
  RequestWorkers(const RequestWorkers&) = delete;
  RequestWorkers& operator=(const RequestWorkers&) = delete;

  using Job = std::function<void()>;
  // Returns a ticket for drop(). Jobs must not throw.
  std::uint64_t post(std::size_t bytes, Job job);
  // Drops a job that has not begun.
  void drop(std::uint64_t ticket);

 private:
  // By turn, then ticket.
  using Queue = std::map<std::pair<std::uint64_t, std::uint64_t>, Job>;

  static std::size_t class_of(std::size_t bytes);
  // Returns the queue with the next turn among those of classes up to `largest`; null: all empty.
  Queue* next_queue(std::size_t largest);
  void run(std::size_t largest);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Queue, 3> queues_;  // small, medium, large
  std::uint64_t clock_ = 0;      // turn of the job that began last, in bytes
  std::uint64_t last_ticket_ = 0;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace edgedraft::client
