#pragma once

#include <cstdint>

namespace edgedraft {

// SplitMix64's finaliser: every input bit affects every output bit.
constexpr std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// The uniform in [0, 1) that decides the token at `position` under `seed`. It depends on nothing
// else, so sampled speculative output equals sampled plain output.
constexpr double uniform_at(std::uint64_t seed, std::uint64_t position) {
  const std::uint64_t bits =
      mix64(mix64(seed + 0x9E3779B97F4A7C15u) + 0x9E3779B97F4A7C15u * (position + 1));
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

// A small seeded generator for tests, jitter and random weights. Satisfies
// UniformRandomBitGenerator. Not for keys, tokens or session ids.
class Random {
 public:
  using result_type = std::uint64_t;
  explicit constexpr Random(std::uint64_t seed) : state_(seed) {}

  constexpr result_type operator()() { return mix64(state_ += 0x9E3779B97F4A7C15u); }
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }

  // In [0, 1).
  constexpr double uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }
  // In [0, count). Requires count > 0.
  constexpr std::uint64_t below(std::uint64_t count) {
    return static_cast<std::uint64_t>(uniform() * static_cast<double>(count));
  }

 private:
  std::uint64_t state_;
};

}  // namespace edgedraft
