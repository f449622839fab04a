#include "client/devices/fallback_drafter.h"

#include <algorithm>
#include <utility>

namespace edgedraft::client {

FallbackDrafter::FallbackDrafter(Options options) : options_(std::move(options)) {
  try {
    drafter_ = options_.first();
  } catch (const DeviceError& error) {
    fall_back(error.what());
  }
}

std::uint64_t FallbackDrafter::kept_bytes_max(std::uint32_t activation_cols,
                                              std::uint32_t positions_max) {
  const std::uint64_t chunks = (std::uint64_t{positions_max} + kChunkRows - 1) / kChunkRows;
  return chunks * kChunkRows * activation_cols * sizeof(float);
}

Drafter& FallbackDrafter::drafter() const {
  if (!drafter_) throw DeviceError("no device is left to draft on");
  return *drafter_;
}

template <class Change>
void FallbackDrafter::change(const Change& change) {
  try {
    change(drafter());
  } catch (const DeviceError& error) {
    if (fallen_) throw;
    fall_back(error.what());
  }
}

template <class Question>
auto FallbackDrafter::ask(const Question& question) {
  try {
    return question(drafter());
  } catch (const DeviceError& error) {
    if (fallen_) throw;
    fall_back(error.what());
  }
  return question(drafter());
}

void FallbackDrafter::fall_back(const std::string& why) {
  fallen_ = true;
  drafter_.reset();
  drafter_ = options_.second();
  replay();
  tokens_ = {};
  chunks_.clear();
  options_.on_failure(why);
}

void FallbackDrafter::replay() {
  drafter().append(tokens_);
  const std::size_t cols = drafter().activation_cols();
  std::uint32_t position = 0;
  for (const Chunk& chunk : chunks_) {
    for (std::uint32_t first = 0; first < kChunkRows;) {
      std::uint32_t end = first;
      while (end < kChunkRows && chunk.is_there[end]) ++end;
      if (end > first) {
        drafter().add_activations(
            position + first, std::span(chunk.rows).subspan(first * cols, (end - first) * cols));
      }
      first = end + 1;
    }
    position += kChunkRows;
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
  if (!fallen_) keep_rows(first, rows);
  change([&](Drafter& drafter) { drafter.add_activations(first, rows); });
}

void FallbackDrafter::drop_activations(std::uint32_t first) {
  if (!fallen_) forget_rows(first);
  change([&](Drafter& drafter) { drafter.drop_activations(first); });
}

void FallbackDrafter::keep_rows(std::uint32_t first, std::span<const float> rows) {
  const std::size_t cols = activation_cols();
  for (std::uint32_t position = first; !rows.empty() && position < options_.positions_max;
       ++position) {
    const std::uint32_t index = position / kChunkRows;
    const std::uint32_t row = position % kChunkRows;
    if (chunks_.size() <= index) chunks_.resize(index + 1);
    Chunk& chunk = chunks_[index];
    if (chunk.rows.empty()) {
      chunk.held = HeldMemory(options_.meter, kChunkRows * cols * sizeof(float));
      chunk.rows.resize(kChunkRows * cols);
    }
    chunk.is_there.set(row);
    std::ranges::copy(rows.first(cols),
                      chunk.rows.begin() + static_cast<std::ptrdiff_t>(row * cols));
    rows = rows.subspan(cols);
  }
}

void FallbackDrafter::forget_rows(std::uint32_t first) {
  const std::uint32_t kept = (first + kChunkRows - 1) / kChunkRows;
  if (chunks_.size() < kept) return;
  chunks_.resize(kept);
  if (first % kChunkRows == 0) return;
  for (std::uint32_t row = first % kChunkRows; row < kChunkRows; ++row) {
    chunks_.back().is_there.reset(row);
  }
}

bool FallbackDrafter::grow(TreeGrowth& growth, const GrowthBudget& budget) {
  return ask([&](Drafter& drafter) { return drafter.grow(growth, budget); });
}

std::span<const float> FallbackDrafter::next_logits() {
  return ask([](Drafter& drafter) { return drafter.next_logits(); });
}

}  // namespace edgedraft::client
