#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace edgedraft {

// Positions of every run of 1 to kOrderMax tokens in a text, for proposing its continuations. After
// any appends and truncations the table equals one built from scratch.
//
// Cost      append and truncate O(kOrderMax) per token; some 400 bytes per token, at most
//           kTokenBytesMax: per order a node, a list of one position and a share of the buckets
class NgramTable {
 public:
  static constexpr std::uint32_t kOrderMax = 4;
  static constexpr std::uint64_t kTokenBytesMax = 16 + kOrderMax * 136;

  std::span<const std::uint32_t> tokens() const { return tokens_; }
  void append(std::span<const std::uint32_t> tokens);
  // Requires  count <= tokens().size()
  void truncate(std::uint32_t count);

  // Positions, ascending, of the tokens that followed the run `context`; empty if it never occurred
  // before the last token. Valid until the next change.
  //
  // Requires  1 <= context.size() <= kOrderMax
  std::span<const std::uint32_t> followers(std::span<const std::uint32_t> context) const;

 private:
  struct Key {
    std::array<std::uint32_t, kOrderMax> tokens{};
    std::uint32_t order = 0;

    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  static Key key_of(std::span<const std::uint32_t> context);

  std::vector<std::uint32_t> tokens_;
  std::unordered_map<Key, std::vector<std::uint32_t>, Hash> followers_;
};

}  // namespace edgedraft
