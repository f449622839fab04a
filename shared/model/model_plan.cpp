#include "shared/model/model_plan.h"

#include <algorithm>
#include <cmath>

#include "shared/base/progress.h"
#include "shared/model/source_rows.h"

namespace edgedraft {
namespace {

constexpr std::size_t kCopyBytes = 4u << 20;  // between two redraws of the progress line

Result<void> copy_bytes(GgufWriter& writer, ByteView bytes, Progress& progress) {
  for (std::size_t at = 0; at < bytes.size(); at += kCopyBytes) {
    const ByteView piece = bytes.subspan(at, std::min(kCopyBytes, bytes.size() - at));
    if (auto written = writer.write(piece); !written) return written.error();
    progress.advance(piece.size());
  }
  return {};
}

Result<void> write_rows(GgufWriter& writer, const PlannedTensor& tensor, Progress& progress) {
  const SourceRows source(tensor);
  const SourceLayout& layout = tensor.layout;
  const bool is_computed = layout.negative_exponent || layout.adds_one;
  std::vector<float> numbers(tensor.info.dims[0]);
  Bytes stored;
  Bytes row(*row_bytes(tensor.info.type, numbers.size()));
  for (std::uint64_t r = 0; r < source.count(); ++r) {
    source.read(r, stored);
    if (tensor.info.type == tensor.source_type && !is_computed) {
      row.swap(stored);
    } else {
      dequantize_row(tensor.source_type, stored, numbers);
      for (float& number : numbers) {
        if (layout.negative_exponent) number = -std::exp(number);
        if (layout.adds_one) number += 1.0f;
      }
      quantize_row(tensor.info.type, numbers, row);
    }
    if (auto written = writer.write(row); !written) return written.error();
    progress.advance(row.size());
  }
  return {};
}

}  // namespace

DType stored_type(DType wanted, std::span<const std::uint64_t> dims) {
  if (dims.size() < 2) return DType::f32;
  for (const DType type : {wanted, DType::q8_0}) {
    const bool smaller_block = traits(type).block_count < traits(wanted).block_count;
    if ((type == wanted || smaller_block) && row_bytes(type, dims[0])) return type;
  }
  return DType::f16;
}

PlannedTensor* find_head(ModelPlan& plan) {
  for (const char* name : {"output.weight", "token_embd.weight"}) {
    for (PlannedTensor& tensor : plan.tensors) {
      if (tensor.info.name == name) return &tensor;
    }
  }
  return nullptr;
}

void raise_head(ModelPlan& plan) {
  const auto is_coarse = [](DType type) {
    return traits(type).block_count > 1 && type != DType::q8_0 && type != DType::q6_k;
  };
  PlannedTensor* const head = find_head(plan);
  if (head == nullptr) return;
  // Tensors that have already lost precision would gain none.
  if (!is_coarse(head->info.type) || is_coarse(head->source_type)) return;
  head->info.type = stored_type(DType::q6_k, head->info.dims);
}

void set_file_type(GgufMetadata& metadata, DType type) {
  struct Number {
    DType type;
    std::uint32_t value;  // llama.cpp's llama_ftype
  };
  constexpr Number kNumbers[] = {{DType::f32, 0},   {DType::f16, 1},  {DType::bf16, 32},
                                 {DType::q8_0, 7},  {DType::q4_0, 2}, {DType::q4_1, 3},
                                 {DType::q5_0, 8},  {DType::q5_1, 9}, {DType::q4_k, 14},
                                 {DType::q5_k, 16}, {DType::q6_k, 18}};
  for (const Number& number : kNumbers) {
    if (number.type == type) metadata.set_u32("general.file_type", number.value);
  }
  if (traits(type).block_count > 1) metadata.set_u32("general.quantization_version", 2);
}

PlannedTensor copy_of(const GgufTensor& tensor, std::string name) {
  return {.info = {.name = std::move(name), .type = tensor.type, .dims = tensor.dims},
          .source_type = tensor.type,
          .source = tensor.bytes};
}

Result<void> write_model(const ModelPlan& plan, const std::filesystem::path& path) {
  std::vector<GgufTensorInfo> infos;
  std::uint64_t total = 0;
  for (const PlannedTensor& tensor : plan.tensors) {
    infos.push_back(tensor.info);
    total += tensor.info.byte_count();
  }
  auto writer = GgufWriter::create(path, plan.metadata, std::move(infos));
  if (!writer) return writer.error();
  Progress progress("writing " + path.filename().string(), total);
  for (const PlannedTensor& tensor : plan.tensors) {
    auto written = tensor.is_as_stored() ? copy_bytes(*writer, tensor.source, progress)
                                         : write_rows(*writer, tensor, progress);
    if (!written) return written.error();
  }
  return writer->finish();
}

}  // namespace edgedraft
