#include "shared/drafting/ngram/ngram_table.h"

#include <algorithm>

#include "shared/base/check.h"
#include "shared/base/random.h"

namespace edgedraft {

std::size_t NgramTable::Hash::operator()(const Key& key) const {
  std::uint64_t hash = key.order;
  for (std::uint32_t i = 0; i < key.order; ++i) hash = mix64(hash + key.tokens[i] + 1);
  return static_cast<std::size_t>(hash);
}

NgramTable::Key NgramTable::key_of(std::span<const std::uint32_t> context) {
  EDGEDRAFT_CHECK(!context.empty() && context.size() <= kOrderMax);
  Key key{.order = static_cast<std::uint32_t>(context.size())};
  std::ranges::copy(context, key.tokens.begin());
  return key;
}

void NgramTable::append(std::span<const std::uint32_t> tokens) {
  for (const std::uint32_t token : tokens) {
    const auto position = static_cast<std::uint32_t>(tokens_.size());
    for (std::uint32_t order = 1; order <= std::min(kOrderMax, position); ++order) {
      followers_[key_of(std::span(tokens_).last(order))].push_back(position);
    }
    tokens_.push_back(token);
  }
}

void NgramTable::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= tokens_.size());
  while (tokens_.size() > count) {
    tokens_.pop_back();
    const auto position = static_cast<std::uint32_t>(tokens_.size());
    for (std::uint32_t order = 1; order <= std::min(kOrderMax, position); ++order) {
      const auto place = followers_.find(key_of(std::span(tokens_).last(order)));
      place->second.pop_back();
      if (place->second.empty()) followers_.erase(place);
    }
  }
}

std::span<const std::uint32_t> NgramTable::followers(std::span<const std::uint32_t> context) const {
  const auto place = followers_.find(key_of(context));
  if (place == followers_.end()) return {};
  return place->second;
}

}  // namespace edgedraft
