#include "client/serve/dialects/past_responses.h"

#include <algorithm>
#include <utility>

namespace edgedraft::client {

void PastResponses::put(std::string id, std::string messages) {
  const std::scoped_lock lock(mutex_);
  bytes_ += messages.size();
  entries_.push_back({std::move(id), std::move(messages)});
  while (entries_.size() > kCountMax || bytes_ > kBytesMax) {
    bytes_ -= entries_.front().messages.size();
    entries_.pop_front();
  }
}

std::optional<std::string> PastResponses::find(const std::string& id) const {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find(entries_, id, &Entry::id);
  if (found == entries_.end()) return std::nullopt;
  return found->messages;
}

}  // namespace edgedraft::client
