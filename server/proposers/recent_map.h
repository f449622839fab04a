#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <unordered_map>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft::server {

// A map that keeps the `size_max` most recently written keys.
template <class Key, class Value, class Hash = std::hash<Key>>
class RecentMap {
 public:
  // Requires  size_max > 0
  explicit RecentMap(std::size_t size_max) : size_max_(size_max) { EDGEDRAFT_CHECK(size_max > 0); }
  RecentMap(const RecentMap&) = delete;
  RecentMap& operator=(const RecentMap&) = delete;

  // Null if there is none. Reading does not refresh a key.
  const Value* find(const Key& key) const {
    const auto place = places_.find(key);
    return place == places_.end() ? nullptr : &place->second->second;
  }
  // Writable value of the key; empty if new.
  Value& write(const Key& key) {
    const auto place = places_.find(key);
    if (place != places_.end()) {
      entries_.splice(entries_.begin(), entries_, place->second);
      return entries_.front().second;
    }
    if (entries_.size() == size_max_) {
      places_.erase(entries_.back().first);
      entries_.pop_back();
    }
    entries_.emplace_front(key, Value{});
    places_.emplace(key, entries_.begin());
    return entries_.front().second;
  }
  std::size_t size() const { return entries_.size(); }

 private:
  using Entries = std::list<std::pair<Key, Value>>;

  std::size_t size_max_;
  Entries entries_;  // most recently written first
  std::unordered_map<Key, typename Entries::iterator, Hash> places_;
};

}  // namespace edgedraft::server
