#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/proposers/recent_map.h"

// Dictionaries of sequences the target has generated, by their context.
namespace edgedraft::server {

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
  bool knows(std::uint32_t key) const { return sequences_.find(key) != nullptr; }
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
