#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/base/sha256.h"
#include "shared/protocol/receipt.h"
#include "shared/types/constraints.h"
#include "shared/types/sampling_params.h"

namespace edgedraft::client {

// Bounds memory: the tokens of the largest context, and their provenance, fit in.
inline constexpr std::uint64_t kReceiptFileBytesMax = 64u << 20;

// An answer with the server's signature over it.
struct Receipt {
  Digest target{};
  std::string arithmetic{};  // without control characters
  SamplingParams sampling{};
  Constraints constraints{};
  std::vector<std::uint32_t> prompt{};  // at least one token
  std::vector<std::uint32_t> answer{};  // at least one token
  std::vector<Attested> provenance{};   // one per token of the answer
  Bytes certificate{};                  // DER, of the server that signed
  Bytes signature{};

  // The text that was signed.
  std::string statement() const;
  bool operator==(const Receipt&) const = default;
};

// One line of JSON. Fields are stable: docs/receipts.md.
std::string to_json(const Receipt& receipt);

// Errors    bad_file naming the field and what it must be
Result<Receipt> parse_receipt(std::string_view text);

}  // namespace edgedraft::client
