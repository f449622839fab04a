#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "shared/base/bytes.h"
#include "shared/drafting/kinds.h"
#include "shared/model/gguf.h"
#include "shared/model/model_plan.h"

namespace {

using namespace edgedraft;

std::filesystem::path scratch(const char* name) {
  const std::string file = "edgedraft-fuzz-" + std::to_string(getpid()) + "-" + name;
  return std::filesystem::temp_directory_path() / file;
}

void write_bytes(const std::filesystem::path& path, ByteView bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
}

// A bundle that is planned can be written, and its kind reads it or reports an error.
void write_and_read(const DrafterKind& kind, const Result<ModelPlan>& plan) {
  if (!plan) return;
  const std::filesystem::path path = scratch("bundle");
  if (write_model(*plan, path)) {
    if (const auto file = GgufFile::open(path)) (void)kind.read(*file);
  }
  std::filesystem::remove(path);
}

}  // namespace

// Published drafters and the models that they are made for. The input is the size of the model's
// file (32 bits), that file, and the drafter's file, if any.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < sizeof(std::uint32_t)) return 0;
  const ByteView bytes = std::as_bytes(std::span(data, size));
  const std::size_t target_size = load_le<std::uint32_t>(bytes.data());
  const ByteView files = bytes.subspan(sizeof(std::uint32_t));
  if (target_size > files.size()) return 0;
  // Tensors are read in place, where a file would be aligned.
  const Bytes target_bytes(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(target_size));
  const auto target = GgufFile::parse(target_bytes);
  if (!target) return 0;
  for (const DrafterKind* kind : drafter_kinds()) {
    if (kind->plan_split != nullptr) write_and_read(*kind, kind->plan_split(*target));
  }
  if (target_size == files.size()) return 0;
  const std::filesystem::path drafter = scratch("drafter");
  write_bytes(drafter, files.subspan(target_size));
  for (const DrafterKind* kind : drafter_kinds()) {
    if (kind->is_source == nullptr || !kind->is_source(drafter)) continue;
    write_and_read(*kind, kind->plan_bundle({.target = *target, .drafter = drafter}));
  }
  std::filesystem::remove(drafter);
  return 0;
}
