#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shared/base/check.h"

// Dictionaries of sequences the target has generated, by their context.
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

// Maps a token to sequences that may follow it: Lookahead's n-gram pool and SPECTRA-CORE's forward
// dictionary. Each key keeps its most recently added sequences.
//
// Cost      a few hundred bytes per key
class ForwardDictionary {
 public:
  using Sequence = std::vector<std::uint32_t>;
  struct Limits {
    std::size_t keys_max;
    std::size_t sequences_max;  // per key
  };
  // Requires  both above 0
  explicit ForwardDictionary(const Limits& limits);

  // A known sequence becomes the newest.
  // Requires  sequence not empty
  void add(std::uint32_t key, std::span<const std::uint32_t> sequence);
  // Newest first; empty for an unknown key. Valid until the next change.
  std::span<const Sequence> find(std::uint32_t key) const;

 private:
  std::size_t sequences_max_;
  RecentMap<std::uint32_t, std::vector<Sequence>> sequences_;
};

// Maps a few tokens to their last successor: SPECTRA-CORE's backward dictionary.
//
// Cost      about 120 bytes per key
class BackwardDictionary {
 public:
  static constexpr std::size_t kKeyMax = 7;

  // Requires  keys_max > 0
  explicit BackwardDictionary(std::size_t keys_max) : next_(keys_max) {}

  // Requires  1 <= key.size() <= kKeyMax
  void set(std::span<const std::uint32_t> key, std::uint32_t next);
  // Null if it is unknown. Valid until the next change.
  // Requires as above.
  const std::uint32_t* find(std::span<const std::uint32_t> key) const;

 private:
  struct Key {
    std::array<std::uint32_t, kKeyMax> tokens{};
    std::size_t count = 0;

    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  static Key key_of(std::span<const std::uint32_t> tokens);

  RecentMap<Key, std::uint32_t, Hash> next_;
};

}  // namespace edgedraft::server
