#include "client/privacy/value_index.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>

namespace edgedraft::client {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;

std::uint64_t multiplied(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<Wide>(a) * b;
  const std::uint64_t sum =
      (static_cast<std::uint64_t>(product) & kPrime) + static_cast<std::uint64_t>(product >> 61);
  return sum >= kPrime ? sum - kPrime : sum;
}

// Random per process, so that texts with equal hashes cannot be constructed.
std::uint64_t base() {
  static const std::uint64_t base = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32 | device()) % (kPrime - 0x110200) + 0x110200;
  }();
  return base;
}

// base() to the power of each number below `count`.
const std::vector<std::uint64_t>& powers(std::size_t count) {
  static thread_local std::vector<std::uint64_t> powers{1};
  while (powers.size() < count) powers.push_back(multiplied(powers.back(), base()));
  return powers;
}

}  // namespace

PrefixHashes::PrefixHashes(std::u32string_view text) : hashes_(text.size() + 1) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint64_t next = multiplied(hashes_[i], base()) + text[i] + 1;
    hashes_[i + 1] = next >= kPrime ? next - kPrime : next;
  }
}

std::uint64_t PrefixHashes::of(std::size_t begin, std::size_t size) const {
  const std::uint64_t before = multiplied(hashes_[begin], powers(size + 1)[size]);
  const std::uint64_t whole = hashes_[begin + size];
  return whole >= before ? whole - before : whole + kPrime - before;
}

// From short to long, so that each marker finds all values that it may begin.
ValueIndex::ValueIndex(std::span<const std::u32string_view> values)
    : next_shorter_(values.size(), kNone) {
  std::vector<std::uint32_t> by_size(values.size());
  std::iota(by_size.begin(), by_size.end(), 0U);
  std::ranges::stable_sort(by_size, {}, [&](std::uint32_t value) { return values[value].size(); });
  for (const std::uint32_t value : by_size) {
    const PrefixHashes hashes(values[value]);
    const std::size_t size = values[value].size();
    next_shorter_[value] = longest(hashes, 0, size);
    const auto mark = [&](std::size_t length) {
      const std::uint64_t hash = hashes.of(0, length);
      if (!markers_.contains(hash)) markers_.emplace(hash, longest(hashes, 0, length));
    };
    std::size_t length = 1;
    for (; length <= size / 2; length *= 2) mark(length);
    mark(length);
    for (std::size_t step = length / 2; step > 0; step /= 2) {
      if (length + step > size) continue;
      length += step;
      mark(length);
    }
    markers_[hashes.of(0, size)] = value;
  }
}

std::uint32_t ValueIndex::longest(const PrefixHashes& text, std::size_t begin,
                                  std::size_t end) const {
  std::uint32_t value = kNone;
  std::size_t length = 0;
  const auto reaches = [&](std::size_t to) {
    if (begin + to > end) return false;
    const auto marker = markers_.find(text.of(begin, to));
    if (marker == markers_.end()) return false;
    value = marker->second;
    length = to;
    return true;
  };
  std::size_t step = 1;
  while (reaches(step)) step *= 2;
  for (step /= 4; step > 0; step /= 2) reaches(length + step);
  return value;
}

}  // namespace edgedraft::client
