#include "client/devices/fallback_drafter.h"

#include <algorithm>
#include <utility>

namespace edgedraft {

FallbackDrafter::FallbackDrafter(Options options) : options_(std::move(options)) {
  try {
    drafter_ = options_.first();
  } catch (const DeviceError& error) {
    fall_back(error.what());
  }
}

std::size_t FallbackDrafter::kept_bytes() const {
  return tokens_.size() * sizeof(tokens_[0]) + rows_.size() * sizeof(rows_[0]);
}

template <class Change>
void FallbackDrafter::change(const Change& change) {
  try {
    change(*drafter_);
  } catch (const DeviceError& error) {
    if (fallen_) throw;
    fall_back(error.what());
  }
}

template <class Question>
auto FallbackDrafter::ask(const Question& question) {
  try {
    return question(*drafter_);
  } catch (const DeviceError& error) {
    if (fallen_) throw;
    fall_back(error.what());
  }
  return question(*drafter_);
}

void FallbackDrafter::fall_back(const std::string& why) {
  fallen_ = true;
  drafter_.reset();
  drafter_ = options_.second();
  replay();
  tokens_ = {};
  rows_ = {};
  row_is_there_ = {};
  options_.on_failure(why);
}

void FallbackDrafter::replay() {
  drafter_->append(tokens_);
  const std::size_t cols = drafter_->activation_cols();
  const auto begin = row_is_there_.begin();
  for (auto first = begin; first != row_is_there_.end();) {
    first = std::find(first, row_is_there_.end(), true);
    const auto last = std::find(first, row_is_there_.end(), false);
    if (first != last) {
      const auto position = static_cast<std::size_t>(first - begin);
      const auto count = static_cast<std::size_t>(last - first);
      drafter_->add_activations(static_cast<std::uint32_t>(position),
                                std::span(rows_).subspan(position * cols, count * cols));
    }
    first = last;
  }
}

void FallbackDrafter::append(std::span<const std::uint32_t> tokens) {
  if (!fallen_) tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  change([&](Drafter& drafter) { drafter.append(tokens); });
}

void FallbackDrafter::truncate(std::uint32_t count) {
  if (!fallen_) {
    tokens_.resize(count);
    forget_rows(count);
  }
  change([&](Drafter& drafter) { drafter.truncate(count); });
}

void FallbackDrafter::add_activations(std::uint32_t first, std::span<const float> rows) {
  const std::size_t cols = activation_cols();
  if (!fallen_ && cols > 0) {
    const std::size_t end = first + rows.size() / cols;
    if (row_is_there_.size() < end) {
      row_is_there_.resize(end);
      rows_.resize(end * cols);
    }
    std::fill(row_is_there_.begin() + first,
              row_is_there_.begin() + static_cast<std::ptrdiff_t>(end), true);
    std::copy(rows.begin(), rows.end(), rows_.begin() + static_cast<std::ptrdiff_t>(first * cols));
  }
  change([&](Drafter& drafter) { drafter.add_activations(first, rows); });
}

void FallbackDrafter::drop_activations(std::uint32_t first) {
  if (!fallen_) forget_rows(first);
  change([&](Drafter& drafter) { drafter.drop_activations(first); });
}

void FallbackDrafter::forget_rows(std::uint32_t first) {
  if (first >= row_is_there_.size()) return;
  row_is_there_.resize(first);
  rows_.resize(first * std::size_t{activation_cols()});
}

bool FallbackDrafter::grow(TreeGrowth& growth, const GrowthBudget& budget) {
  return ask([&](Drafter& drafter) { return drafter.grow(growth, budget); });
}

std::span<const float> FallbackDrafter::next_logits() {
  return ask([](Drafter& drafter) { return drafter.next_logits(); });
}

}  // namespace edgedraft
