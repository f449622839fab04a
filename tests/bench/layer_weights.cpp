#include "tests/bench/layer_weights.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "shared/base/random.h"

namespace edgedraft::bench {
namespace {

struct KnownModel {
  std::string_view name;
  std::uint32_t dim;
  std::uint32_t kv_cols;
  std::uint32_t ffn_dim;
};

constexpr std::array kKnownModels = {
    KnownModel{"llama-1.1b", 2048, 256, 5632},
    KnownModel{"llama3-8b", 4096, 1024, 14336},
};

std::vector<WeightShape> layer_of(const KnownModel& m) {
  return {{"q", m.dim, m.dim},       {"k", m.kv_cols, m.dim},    {"v", m.kv_cols, m.dim},
          {"o", m.dim, m.dim},       {"gate", m.ffn_dim, m.dim}, {"up", m.ffn_dim, m.dim},
          {"down", m.dim, m.ffn_dim}};
}

bool parse_count(std::string_view text, std::uint32_t& count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() && count > 0 && count <= 1u << 20;
}

}  // namespace

Result<std::vector<WeightShape>> parse_shape(const std::string& text) {
  for (const KnownModel& model : kKnownModels) {
    if (model.name == text) return layer_of(model);
  }
  const std::size_t by = text.find('x');
  WeightShape shape{.name = text, .outputs = 0, .inputs = 0};
  if (by == std::string::npos ||
      !parse_count(std::string_view(text).substr(0, by), shape.outputs) ||
      !parse_count(std::string_view(text).substr(by + 1), shape.inputs)) {
    return Error{Errc::usage, "--shape " + text +
                                  " is neither llama-1.1b nor llama3-8b nor OUTPUTSxINPUTS such as "
                                  "4096x4096"};
  }
  return std::vector{shape};
}

LayerWeights::LayerWeights(Backend& backend, const std::vector<WeightShape>& shapes, DType type,
                           std::uint64_t working_set_bytes)
    : type_(type), shapes_(shapes) {
  std::vector<Bytes> originals;
  Random random(1);
  for (const WeightShape& shape : shapes) {
    const auto row = static_cast<std::size_t>(row_bytes(type, shape.inputs).value());
    std::vector<float> numbers(shape.inputs);
    Bytes bytes(row * shape.outputs);
    for (std::uint32_t o = 0; o < shape.outputs; ++o) {
      for (float& x : numbers) x = static_cast<float>(2.0 * random.uniform() - 1.0);
      quantize_row(type, numbers, std::span(bytes).subspan(o * row, row));
    }
    bytes_a_copy_ += bytes.size();
    products_a_row_ += std::uint64_t{shape.outputs} * shape.inputs;
    originals.push_back(std::move(bytes));
  }

  const std::uint64_t count = std::max<std::uint64_t>(1, working_set_bytes / bytes_a_copy_);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::vector<Weight> copy;
    for (std::size_t w = 0; w < shapes.size(); ++w) {
      bytes_.push_back(originals[w]);
      buffers_.push_back(backend.upload(bytes_.back()));
      copy.push_back({.buffer = buffers_.back().get(),
                      .offset_bytes = 0,
                      .type = type,
                      .rows = shapes[w].outputs,
                      .cols = shapes[w].inputs});
    }
    copies_.push_back(std::move(copy));
  }
}

std::vector<float> LayerWeights::decoded_row(std::size_t weight, std::uint32_t row) const {
  std::vector<float> numbers(shapes_[weight].inputs);
  const auto bytes = static_cast<std::size_t>(row_bytes(type_, numbers.size()).value());
  dequantize_row(type_, std::span(bytes_[weight]).subspan(row * bytes, bytes), numbers);
  return numbers;
}

}  // namespace edgedraft::bench
