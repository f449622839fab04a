#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace edgedraft {

// Encoder without special tokens.
//
// Threads   const methods may run concurrently
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Appends the ids of a text, which may be empty and hold any bytes.
  virtual void encode(std::string_view text, std::vector<std::uint32_t>& ids) const = 0;
  // Bytes that an entry, spelled `text`, adds to a text.
  virtual std::string bytes_of(std::string_view text) const = 0;
};

}  // namespace edgedraft
