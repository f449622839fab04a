#include <cstdlib>

#include "shared/model/sentencepiece_proto.h"

// Any bytes give a model or an error; text that a model encodes decodes to the same bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace edgedraft;
  const auto model = decode_sentencepiece_model(std::as_bytes(std::span(data, size)));
  if (!model) return 0;
  const auto again = decode_sentencepiece_model(as_byte_view(encode_sentencepiece_model(*model)));
  if (!again || again->pieces.size() != model->pieces.size()) std::abort();
  return 0;
}
