#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

namespace edgedraft::client {

// Messages of earlier responses, which later requests continue by id (`previous_response_id`). They
// stay in memory; beyond the bounds, the oldest are forgotten.
//
// Threads   any
class PastResponses {
 public:
  static constexpr std::size_t kCountMax = 256;
  static constexpr std::size_t kBytesMax = 32u << 20;

  // `messages` is a JSON array of chat messages.
  void put(std::string id, std::string messages);
  // Empty if it is unknown or forgotten.
  std::optional<std::string> find(const std::string& id) const;

 private:
  struct Entry {
    std::string id;
    std::string messages;
  };
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  std::size_t bytes_ = 0;
};

}  // namespace edgedraft::client
