#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "client/receipts/receipt_file.h"

// Any bytes parse to a receipt that is written and read back unchanged, or to an error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace edgedraft::client;
  const auto receipt = parse_receipt({reinterpret_cast<const char*>(data), size});
  if (!receipt) {
    if (receipt.error().message.empty()) std::abort();
    return 0;
  }
  if (receipt->answer.empty() || receipt->answer.size() != receipt->provenance.size() ||
      receipt->statement().empty()) {
    std::abort();
  }
  const auto again = parse_receipt(to_json(*receipt));
  if (!again || !(*again == *receipt)) std::abort();
  return 0;
}
