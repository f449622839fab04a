#pragma once

#include <cstdint>
#include <string>

namespace edgedraft::client {

// Largest magnitude of whole numbers in grammars: 18 digits always fit 64 bits.
inline constexpr std::int64_t kWholeMax = 999'999'999'999'999'999;

// Returns grammar alternatives for whole numbers from `first` to `last`; empty if there are none.
//
// Requires  both within [-kWholeMax, kWholeMax]
std::string whole_numbers(std::int64_t first, std::int64_t last);

}  // namespace edgedraft::client
