#include "client/serve/request_workers.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace edgedraft::client {
namespace {

constexpr std::size_t kLarge = 4u << 20;

// Occupies all threads until release().
class RequestWorkersTest : public ::testing::Test {
 protected:
  void occupy() {
    for (const std::size_t bytes : {kLarge, RequestWorkers::kMediumBytesMax, std::size_t{1}}) {
      std::promise<void> begun;
      workers_->post(bytes, [this, &begun] {
        begun.set_value();
        released_.wait();
      });
      begun.get_future().wait();
    }
  }
  void release() { release_.set_value(); }
  std::uint64_t post(const std::string& name, std::size_t bytes) {
    return workers_->post(bytes, [this, name] {
      const std::scoped_lock lock(mutex_);
      order_.push_back(name);
    });
  }
  // Runs all large jobs, which share one thread, to their end.
  void finish() {
    std::promise<void> done;
    workers_->post(std::size_t{1} << 40, [&done] { done.set_value(); });
    done.get_future().wait();
  }

  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
  std::mutex mutex_;
  std::vector<std::string> order_;
  std::unique_ptr<RequestWorkers> workers_ = std::make_unique<RequestWorkers>();
};

TEST_F(RequestWorkersTest, SmallRequestPassesLargeOneInProgress) {
  std::promise<void> begun;
  workers_->post(kLarge, [this, &begun] {
    begun.set_value();
    released_.wait();
  });
  begun.get_future().wait();
  for (const std::size_t bytes : {std::size_t{1}, RequestWorkers::kMediumBytesMax}) {
    std::promise<void> small;
    workers_->post(bytes, [&small] { small.set_value(); });
    small.get_future().wait();
  }
  release();
}

TEST_F(RequestWorkersTest, ServesWaitingRequestsBySizeAndArrival) {
  occupy();
  post("large", 3 * kLarge);
  post("middle", 2 * kLarge);
  post("least", kLarge);
  release();
  finish();
  EXPECT_EQ(order_, (std::vector<std::string>{"least", "middle", "large"}));
}

TEST_F(RequestWorkersTest, LargeRequestIsNotOvertakenForever) {
  std::promise<void> begun;
  workers_->post(kLarge, [this, &begun] {
    begun.set_value();
    released_.wait();
  });
  begun.get_future().wait();
  post("large", 3 * kLarge);
  // Each is posted once the one before it has begun, so that the large one would wait forever if
  // only sizes counted.
  int overtaken = 0;
  std::function<void()> overtake = [&] {
    const std::scoped_lock lock(mutex_);
    if (!order_.empty() || overtaken == 1000) return;
    ++overtaken;
    workers_->post(kLarge, overtake);
  };
  workers_->post(kLarge, overtake);
  release();
  finish();
  EXPECT_LE(overtaken, 3);
}

TEST_F(RequestWorkersTest, DropsWaitingRequest) {
  occupy();
  const std::uint64_t dropped = post("dropped", kLarge);
  post("kept", kLarge);
  workers_->drop(dropped);
  release();
  finish();
  EXPECT_EQ(order_, std::vector<std::string>{"kept"});
}

TEST_F(RequestWorkersTest, EndDropsWaitingRequests) {
  occupy();
  post("late", kLarge);
  const std::weak_ptr<int> held = [this] {
    auto kept = std::make_shared<int>(1);
    workers_->post(kLarge, [kept] {});
    return std::weak_ptr<int>(kept);
  }();
  std::thread releasing([this] { release(); });
  workers_.reset();
  releasing.join();
  EXPECT_TRUE(held.expired());
}

}  // namespace
}  // namespace edgedraft::client
