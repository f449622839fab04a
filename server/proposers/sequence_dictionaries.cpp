#include "server/proposers/sequence_dictionaries.h"

#include <algorithm>

#include "shared/base/random.h"

namespace edgedraft::server {

ForwardDictionary::ForwardDictionary(const Limits& limits)
    : sequences_max_(limits.sequences_max), sequences_(limits.keys_max) {
  EDGEDRAFT_CHECK(limits.sequences_max > 0);
}

void ForwardDictionary::add(std::uint32_t key, std::span<const std::uint32_t> sequence) {
  EDGEDRAFT_CHECK(!sequence.empty());
  std::vector<Sequence>& known = sequences_.write(key);
  auto place = std::ranges::find_if(
      known, [&](const Sequence& one) { return std::ranges::equal(one, sequence); });
  if (place == known.end()) {
    if (known.size() == sequences_max_) known.pop_back();
    known.emplace_back(sequence.begin(), sequence.end());
    place = known.end() - 1;
  }
  std::rotate(known.begin(), place, place + 1);
}

std::span<const ForwardDictionary::Sequence> ForwardDictionary::find(std::uint32_t key) const {
  const auto* const known = sequences_.find(key);
  if (known == nullptr) return {};
  return *known;
}

std::size_t BackwardDictionary::Hash::operator()(const Key& key) const {
  std::uint64_t hash = key.count;
  for (std::size_t i = 0; i < key.count; ++i) hash = mix64(hash + key.tokens[i] + 1);
  return static_cast<std::size_t>(hash);
}

BackwardDictionary::Key BackwardDictionary::key_of(std::span<const std::uint32_t> tokens) {
  EDGEDRAFT_CHECK(!tokens.empty() && tokens.size() <= kKeyMax);
  Key key{.count = tokens.size()};
  std::ranges::copy(tokens, key.tokens.begin());
  return key;
}

void BackwardDictionary::set(std::span<const std::uint32_t> key, std::uint32_t next) {
  next_.write(key_of(key)) = next;
}

const std::uint32_t* BackwardDictionary::find(std::span<const std::uint32_t> key) const {
  return next_.find(key_of(key));
}

}  // namespace edgedraft::server
