#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/runtime/backend.h"

namespace edgedraft {

// Keys (rotated) and values of one sequence in every layer. Slots 0..length()-1 are valid and slot
// = position; rows of a running call stand behind them until keep() or set_length() decides.
//
// Cost      8 * layers * capacity * kv_cols bytes, allocated at once
class KvCache {
 public:
  struct Size {
    std::uint32_t layers;
    std::uint32_t kv_cols;
    std::uint32_t capacity;  // slots
  };
  // Throws DeviceError when the memory is not to be had.
  KvCache(Backend& backend, const Size& size);

  std::uint32_t length() const { return length_; }
  std::uint32_t capacity() const { return size_.capacity; }

  std::span<const Matrix> keys() const { return keys_; }      // a layer each, [capacity, kv_cols]
  std::span<const Matrix> values() const { return values_; }  // the same

  // Declares slots 0..length-1 valid. Requires length <= capacity().
  void set_length(std::uint32_t length);
  // Appends the given slots, which stand behind length() and increase, in order: the accepted path
  // of a tree becomes contiguous.
  void keep(std::span<const std::uint32_t> slots);

 private:
  Backend& backend_;
  Size size_;
  std::unique_ptr<Buffer> memory_;
  std::vector<Matrix> keys_;
  std::vector<Matrix> values_;
  std::uint32_t length_ = 0;
};

}  // namespace edgedraft
