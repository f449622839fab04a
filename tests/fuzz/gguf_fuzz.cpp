#include <vector>

#include "shared/drafting/kinds.h"
#include "shared/model/chat_template.h"
#include "shared/model/decoder_tensors.h"
#include "shared/model/fingerprint.h"
#include "shared/model/gguf.h"
#include "shared/model/tokenizer.h"
#include "shared/tensor/coded_blocks.h"
#include "shared/tensor/dtype.h"

namespace {

// Bits of a block may be indices of tables.
void decode_first_row(const edgedraft::GgufTensor& tensor) {
  using namespace edgedraft;
  constexpr std::uint64_t kColsMax = 4096;
  const auto bytes = row_bytes(tensor.type, tensor.cols());
  if (tensor.cols() > kColsMax || !bytes) return;
  std::vector<float> row(tensor.cols());
  dequantize_row(tensor.type, tensor.bytes.first(*bytes), row);
  if (is_coded(tensor.type)) (void)coded(tensor.type, tensor.bytes.first(*bytes));
}

}  // namespace

// All readers of model files. Any bytes give a value or an error, and every byte of a tensor lies
// within the file (the fingerprint reads them all).
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace edgedraft;
  const auto file = GgufFile::parse(std::as_bytes(std::span(data, size)));
  if (!file) return 0;
  compute_model_fingerprint(*file);
  (void)model_fingerprint(*file);
  (void)tokenizer_fingerprint(*file);
  (void)target_fingerprint_of(*file);
  (void)drafter_kind_of(*file);
  for (const DrafterKind* kind : drafter_kinds()) (void)kind->read(*file);
  if (const auto config = read_decoder_config(*file)) {
    (void)read_decoder_tensors(*file, *config);
  }
  for (const GgufTensor& tensor : file->tensors()) decode_first_row(tensor);
  if (const auto tokenizer = Tokenizer::read(*file)) {
    const auto ids = tokenizer->encode("a <s>b</s>\xFF\xE2\x96\x81", Special::parse);
    decode(*tokenizer, ids, LeadingSpace::strip);
  }
  if (const auto source = chat_template_source(*file)) (void)ChatTemplate::parse(*source);
  return 0;
}
