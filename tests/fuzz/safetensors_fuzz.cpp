#include "shared/base/sha256.h"
#include "shared/model/safetensors.h"

// Any bytes give a table or an error, and every byte of a tensor lies within the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace edgedraft;
  const auto file = SafetensorsFile::parse(std::as_bytes(std::span(data, size)));
  if (!file) return 0;
  for (const auto& [name, tensor] : file->tensors()) sha256(tensor.bytes);
  return 0;
}
