#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tests/runtime/op_test.h"

namespace edgedraft::testing {

// A cache with its own memory, in these pages or, without any, contiguous.
class TypedCache {
 public:
  TypedCache(Backend& backend, DType type, std::uint32_t slots, std::uint32_t cols,
             std::span<const std::uint32_t> pages = {}, std::uint32_t page_slots = 0)
      : backend_(backend) {
    const std::uint32_t rows =
        pages.empty() ? slots : static_cast<std::uint32_t>(pages.size()) * page_slots;
    memory_ = backend.allocate((rows * cache_bytes(type, cols) + 3) / 4);
    const CacheRows all(memory_.get(), 0, rows, cols, type);
    view_ = pages.empty() ? CacheView(all) : CacheView(all, pages, page_slots);
  }
  TypedCache(const TypedCache&) = delete;
  TypedCache& operator=(const TypedCache&) = delete;

  const CacheView& view() const { return view_; }
  void store(std::uint32_t first, std::span<const float> numbers) {
    const auto rows = static_cast<std::uint32_t>(numbers.size() / view_.cols());
    const OwnedMatrix x = matrix_of(backend_, rows, view_.cols(), numbers);
    backend_.store({.x = x.all(), .cache = view_, .first = first});
  }
  Floats read(std::uint32_t first, std::uint32_t count) const {
    Floats numbers(std::size_t{count} * view_.cols());
    for (std::uint32_t done = 0; done < count;) {
      const CacheRows run = view_.run(first + done, count - done);
      backend_.read_cache(run, std::span(numbers).subspan(std::size_t{done} * view_.cols(),
                                                          std::size_t{run.rows} * view_.cols()));
      done += run.rows;
    }
    return numbers;
  }

 private:
  Backend& backend_;
  std::unique_ptr<Buffer> memory_;
  CacheView view_;
};

}  // namespace edgedraft::testing
