#include <cstdint>
#include <cstdlib>

#include "shared/protocol/activation_codec.h"
#include "shared/protocol/frame.h"
#include "shared/protocol/message.h"
#include "tests/support/outgoing.h"

// The first byte is the kind, the rest the payload. A decoded message must survive encoding and
// decoding unchanged; chunks of activations are also decompressed.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace edgedraft;
  if (size == 0) return 0;
  const ByteView payload = std::as_bytes(std::span(data, size)).subspan(1);
  const auto message = wire::decode(data[0], payload);
  if (!message) return 0;

  const Bytes frame = wire::encode(outgoing(*message));
  const auto again = wire::decode(data[0], ByteView(frame).subspan(kFrameHeaderBytes));
  if (!again || *again != arriving(*message)) std::abort();

  if (const auto* chunk = std::get_if<wire::Activations>(&*message)) {
    const ActivationLayout layout({5, 3});
    const auto packed = decompress_activations(layout, *chunk);
    if (packed) (void)dequantize_rows(layout, chunk->count, *packed);
  }
  return 0;
}
