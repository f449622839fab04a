#include "shared/model/tensor_shapes.h"

#include <cmath>
#include <span>
#include <utility>

#include "shared/base/check.h"
#include "shared/model/families/layer_list.h"

namespace edgedraft {
namespace {

TensorView ones(std::uint32_t cols) {
  static const std::vector<float> kOnes(kHeadDimMax, 1.0f);
  EDGEDRAFT_CHECK(cols <= kOnes.size());
  return {.type = DType::f32,
          .rows = 1,
          .cols = cols,
          .bytes = std::as_bytes(std::span(kOnes).first(cols))};
}

}  // namespace

Result<std::uint32_t> read_count(const GgufKeys& file, std::string_view key, std::uint32_t max) {
  const auto count = file.get_u32(key);
  if (!count) return count.error();
  if (*count == 0 || *count > max) {
    return bad_file(std::string(key) + " is " + std::to_string(*count));
  }
  return *count;
}

Error missing_tensor(const std::string& name) {
  return {Errc::bad_file, "the file lacks the tensor " + name};
}

Error wrong_shape(const GgufTensor& tensor, std::uint64_t rows, std::uint64_t cols) {
  const std::string wanted = rows == 0 ? "any" : std::to_string(rows);
  return {Errc::bad_file, "tensor " + std::string(tensor.name) + " is " +
                              std::to_string(tensor.rows()) + " x " +
                              std::to_string(tensor.cols()) + "; the configuration requires " +
                              wanted + " x " + std::to_string(cols)};
}

Result<std::vector<float>> read_divisor_tensor(const GgufFile& file, const std::string& name,
                                               std::uint32_t count) {
  TensorView view;
  TensorReader reader(file, "");
  reader.vector(name, count, view);
  if (reader.error()) return *reader.error();
  std::vector<float> divisors(count);
  dequantize_row(view.type, view.bytes, divisors);
  for (const float divisor : divisors) {
    if (!(divisor > 0.0f && std::isfinite(divisor))) {
      return Error{Errc::bad_file, name + " has a divisor that is not a finite positive number"};
    }
  }
  return divisors;
}

Result<void> read_rope_freqs(const GgufFile& file, RopeConfig& rope) {
  constexpr const char* kName = "rope_freqs.weight";
  if (file.find_tensor(kName) == nullptr) return {};
  auto stored = read_divisor_tensor(file, kName, rope.rotated / 2);
  if (!stored) return stored.error();
  for (std::size_t i = 0; i < rope.frequency_divisors.size(); ++i) {
    (*stored)[i] *= rope.frequency_divisors[i];
  }
  rope.frequency_divisors = std::move(*stored);
  return {};
}

void TensorReader::matrix(const std::string& name, std::uint32_t rows, std::uint32_t cols,
                          TensorView& out, std::size_t dims_max) {
  if (error_) return;
  const GgufTensor* tensor = file_.find_tensor(prefix_ + name);
  if (tensor == nullptr) {
    error_ = missing_tensor(prefix_ + name);
    return;
  }
  if (tensor->dims.size() > dims_max || tensor->rows() != rows || tensor->cols() != cols) {
    error_ = wrong_shape(*tensor, rows, cols);
    return;
  }
  out = {.type = tensor->type, .rows = rows, .cols = cols, .bytes = tensor->bytes};
}

void TensorReader::vector(const std::string& name, std::uint32_t cols, TensorView& out) {
  vectors(name, 1, cols, out);
}

void TensorReader::vectors(const std::string& name, std::uint32_t rows, std::uint32_t cols,
                           TensorView& out) {
  matrix(name, rows, cols, out);
  if (!error_ && traits(out.type).block_count != 1) {
    error_ = Error{Errc::unsupported, "tensor " + prefix_ + name + " is stored as " +
                                          std::string(traits(out.type).name) +
                                          "; norms and biases must be f32, f16 or bf16"};
  }
}

void TensorReader::part(const LayerTensor& tensor, TensorView& out) {
  const std::string name(tensor.name);
  if (tensor.kind == LayerTensor::Kind::ones) {
    out = ones(tensor.cols);
    return;
  }
  if (tensor.kind == LayerTensor::Kind::optional_vector) {
    optional_vector(name, tensor.cols, out);
    return;
  }
  if (tensor.kind == LayerTensor::Kind::vector) {
    vectors(name, tensor.rows, tensor.cols, out);
    return;
  }
  if (tensor.kind == LayerTensor::Kind::optional_numbers) {
    optional_vector(name, tensor.cols, out);
    if (out.present()) out = {out.type, out.cols, 1, out.bytes, 0, out.cols};
    return;
  }
  if (!has(name) && !tensor.joined.empty() && has(tensor.joined)) {
    joined_experts(tensor, out);
    return;
  }
  if (tensor.kind == LayerTensor::Kind::optional_matrix && !has(name)) return;
  TensorView all;
  matrix(name, tensor.all_rows(), tensor.cols, all, tensor.experts == 1 ? 2 : 3);
  if (error_) return;
  const std::uint64_t row = all.bytes.size() / all.rows;
  // Groups of rows reach from the first one to the end.
  const std::uint64_t reach =
      tensor.group == 0 ? tensor.rows : std::uint64_t{tensor.stored_rows} - tensor.first_row;
  out = {.type = all.type,
         .rows = tensor.rows,
         .cols = tensor.cols,
         .bytes = all.bytes.subspan(tensor.first_row * row, reach * row),
         .group = tensor.group,
         .experts = tensor.experts};
}

void TensorReader::joined_experts(const LayerTensor& tensor, TensorView& out) {
  TensorView all;
  matrix(std::string(tensor.joined), 2 * tensor.rows, tensor.cols, all, 3);
  if (error_) return;
  const std::uint64_t row = all.bytes.size() / all.rows;
  out = {.type = all.type,
         .rows = tensor.rows,
         .cols = tensor.cols,
         .bytes = all.bytes.subspan(tensor.joined_row * row),
         .group = tensor.rows / tensor.experts,
         .experts = tensor.experts};
}

void TensorReader::optional_vector(const std::string& name, std::uint32_t cols, TensorView& out) {
  if (has(name)) vector(name, cols, out);
}

bool TensorReader::has(std::string_view name) const {
  return file_.find_tensor(prefix_ + std::string(name)) != nullptr;
}

void TensorReader::refuse(const std::string& name) {
  if (error_ || file_.find_tensor(prefix_ + name) == nullptr) return;
  error_ = Error{Errc::unsupported, "tensor " + prefix_ + name + " is not supported"};
}

}  // namespace edgedraft
