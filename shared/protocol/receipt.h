#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/sha256.h"
#include "shared/types/constraints.h"
#include "shared/types/sampling_params.h"

// Receipt of an answer: a statement that a server signs after it has checked the answer's tokens.
// docs/receipts.md says what it proves.
namespace edgedraft {

// Origin of an answer's token, as the server that signs knows it.
enum class Attested : std::uint8_t {
  checked = 1,  // came from the client, and the target chooses it as well
  chosen = 2,   // the target chose it in this request
};
std::string_view to_string(Attested attested);

// Provenance of an answer with `checked_count` checked tokens and the chosen one after them.
std::vector<Attested> attested_answer(std::size_t checked_count);

struct ReceiptFacts {
  Digest target{};                // fingerprint of the target's file
  std::string_view arithmetic{};  // build and kind of device, as in Welcome
  SamplingParams sampling{};      // all fields are stated
  Constraints constraints{};
  std::span<const std::uint32_t> prompt{};
  std::span<const std::uint32_t> answer{};
  std::span<const Attested> provenance{};  // one per token of the answer
};

// The signed text: one line per fact, in a fixed order.
// Requires  no line break in `arithmetic`; one provenance per token of the answer
std::string receipt_statement(const ReceiptFacts& facts);

}  // namespace edgedraft
