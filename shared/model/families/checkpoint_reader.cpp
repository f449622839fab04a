#include "shared/model/families/checkpoint_reader.h"

#include <algorithm>
#include <utility>

namespace edgedraft {
namespace {

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text;
  for (const std::uint64_t dim : shape) text += (text.empty() ? "" : " x ") + std::to_string(dim);
  return text.empty() ? "a scalar" : text;
}

// Dimensions of one have no meaning: some checkpoints keep a channel of a convolution.
std::vector<std::uint64_t> without_ones(std::vector<std::uint64_t> shape) {
  std::erase(shape, 1u);
  return shape;
}

// Rows of halves become pairs in each head.
SourceLayout pairs_layout(std::uint64_t rows, std::uint32_t heads) {
  if (heads == 0) return {};
  return {.rows = {.outer = 2, .inner = static_cast<std::uint32_t>(rows / heads / 2)}};
}

std::string of_expert(std::string_view name, std::uint32_t expert) {
  std::string text(name);
  const std::size_t at = text.find('#');
  return at == std::string::npos ? text : text.replace(at, 1, std::to_string(expert));
}

std::string root_of(const SafetensorsModel& checkpoint) {
  for (const char* root : {"model.language_model.", "language_model.model."}) {
    if (checkpoint.find(std::string(root) + "embed_tokens.weight") != nullptr) return root;
  }
  return "model.";
}

}  // namespace

CheckpointReader::CheckpointReader(const SafetensorsModel& checkpoint, DType type, ModelPlan& plan)
    : checkpoint_(checkpoint), type_(type), plan_(plan), root_(root_of(checkpoint)) {}

const SafetensorsTensor* CheckpointReader::find(const std::string& name,
                                                const std::vector<std::uint64_t>& shape) {
  if (error_) return nullptr;
  const SafetensorsTensor* const tensor = checkpoint_.find(name);
  if (tensor == nullptr) {
    error_ = Error{Errc::bad_file, "the checkpoint lacks the tensor " + name};
    return nullptr;
  }
  if (without_ones(tensor->shape) != without_ones(shape) ||
      std::find(shape.begin(), shape.end(), 0u) != shape.end()) {
    error_ = Error{Errc::bad_file, "tensor " + name + " is " + shape_text(tensor->shape) +
                                       "; the configuration requires " +
                                       shape_text(without_ones(shape))};
    return nullptr;
  }
  taken_.push_back(name);
  return tensor;
}

std::optional<DType> CheckpointReader::weight_type(const std::string& name,
                                                   const SafetensorsTensor& tensor) {
  const auto type = tensor.weight_type();
  if (!type) {
    error_ = Error{Errc::unsupported, "tensor " + name + " is stored as " + tensor.type +
                                          "; F32, F16 and BF16 are supported"};
  }
  return type;
}

void CheckpointReader::add(const std::string& from, std::string to,
                           std::vector<std::uint64_t> shape, std::uint32_t pair_heads) {
  const SafetensorsTensor* const tensor = find(from, shape);
  if (tensor == nullptr) return;
  const auto source_type = weight_type(from, *tensor);
  if (!source_type) return;
  const std::vector<std::uint64_t> dims(shape.rbegin(), shape.rend());
  plan_.tensors.push_back(
      {.info = {.name = std::move(to), .type = stored_type(type_, dims), .dims = dims},
       .source_type = *source_type,
       .source = tensor->bytes,
       .layout = pairs_layout(shape[0], pair_heads)});
}

void CheckpointReader::add_if_there(const std::string& from, std::string to,
                                    std::vector<std::uint64_t> shape, std::uint32_t pair_heads) {
  if (checkpoint_.find(from) != nullptr) add(from, std::move(to), std::move(shape), pair_heads);
}

void CheckpointReader::add_layer(const std::string& from, const std::string& to,
                                 const LayerList& list, RopeStyle style) {
  std::vector<std::string_view> added;
  for (const LayerTensor& tensor : list.tensors()) {
    if (std::ranges::find(added, tensor.name) != added.end()) continue;  // several parts
    added.push_back(tensor.name);
    add_part(tensor, from, to + std::string(tensor.name), style);
  }
}

void CheckpointReader::add_part(const LayerTensor& tensor, const std::string& from,
                                const std::string& to, RopeStyle style) {
  const auto has = [&](const HfSource& source) {
    return checkpoint_.find(from + of_expert(source.name, 0)) != nullptr;
  };
  const bool is_other = !tensor.hf_else.name.empty() && !has(tensor.hf);
  const HfSource& source = is_other ? tensor.hf_else : tensor.hf;
  SourceLayout layout = source.layout;
  if (style == RopeStyle::pairs && tensor.heads != 0) {
    layout = pairs_layout(tensor.all_rows(), tensor.heads);
  }
  using Kind = LayerTensor::Kind;
  if (tensor.kind == Kind::ones) return;
  if (tensor.kind == Kind::unused) {
    if (!tensor.hf.name.empty()) leave_out_all(from + std::string(tensor.hf.name));
    return;
  }
  const bool is_matrix = tensor.kind == Kind::matrix || tensor.kind == Kind::optional_matrix;
  const bool is_optional = tensor.kind != Kind::matrix && tensor.kind != Kind::vector;
  // Biases are not permuted; refuse_others() reports one.
  if (is_optional && (!has(source) || layout != SourceLayout{})) return;
  const std::uint64_t rows = tensor.all_rows() / tensor.experts;
  std::vector<std::uint64_t> dims = {tensor.cols};
  if (tensor.all_rows() > 1) dims.push_back(rows);
  if (tensor.experts > 1) dims.push_back(tensor.experts);
  const DType type = is_matrix && !tensor.exact ? stored_type(type_, dims) : DType::f32;
  PlannedTensor planned{.info = {.name = to, .type = type, .dims = dims},
                        .layout = layout,
                        .experts = tensor.experts};
  const auto stored = [](const SourceOrder& order, std::uint64_t taken) {
    return order.stored == 0 ? taken : order.stored;
  };
  std::vector<std::uint64_t> shape = {stored(layout.rows, rows), stored(layout.cols, tensor.cols)};
  if (layout.transposed) std::swap(shape[0], shape[1]);
  if (source.name.find('#') == std::string_view::npos) {
    shape.insert(shape.begin(), tensor.experts);
  }
  add_sources(source, from, shape, planned);
  if (!error_) plan_.tensors.push_back(std::move(planned));
}

void CheckpointReader::add_sources(const HfSource& source, const std::string& from,
                                   const std::vector<std::uint64_t>& shape,
                                   PlannedTensor& planned) {
  if (!source.scales.empty()) {
    constexpr std::uint64_t kBlock = 32;
    constexpr std::uint64_t kBlockCodes = 16;
    std::vector<std::uint64_t> blocks = shape;
    blocks.back() /= kBlock;  // 0 is refused
    if (shape.back() % kBlock != 0) blocks.back() = 0;
    const SafetensorsTensor* const scales = find(from + std::string(source.scales), blocks);
    blocks.push_back(kBlockCodes);
    const std::string name = from + std::string(source.name);
    const SafetensorsTensor* const codes = find(name, blocks);
    if (codes == nullptr || scales == nullptr) return;
    if (codes->type != "U8" || scales->type != "U8") {
      error_ = Error{Errc::unsupported, "tensor " + name + " and its scales are stored as " +
                                            codes->type + " and " + scales->type +
                                            "; MXFP4 is stored as U8"};
      return;
    }
    planned.info.type = planned.source_type = DType::mxfp4;
    planned.source = codes->bytes;
    planned.scales = scales->bytes;
    return;
  }
  const bool is_split = source.name.find('#') != std::string_view::npos;
  for (std::uint32_t e = 0; e < (is_split ? planned.experts : 1); ++e) {
    const std::string name = from + of_expert(source.name, e);
    const SafetensorsTensor* const tensor = find(name, shape);
    if (tensor == nullptr) return;
    const auto type = weight_type(name, *tensor);
    if (!type) return;
    if (e == 0) {
      planned.source_type = *type;
      planned.source = tensor->bytes;
      continue;
    }
    if (*type != planned.source_type) {
      error_ = Error{Errc::unsupported, "tensor " + name + " is stored as " + tensor->type +
                                            ", the first expert's as " +
                                            std::string(traits(planned.source_type).name) +
                                            "; all experts must have one type"};
      return;
    }
    planned.further.push_back(tensor->bytes);
  }
}

void CheckpointReader::leave_out(const std::string& from, const std::vector<std::uint64_t>& shape) {
  const SafetensorsTensor* tensor = checkpoint_.find(from);
  if (error_ || tensor == nullptr) return;
  if (tensor->shape != shape) {
    error_ = Error{Errc::mismatch, "tensor " + from + " is " + shape_text(tensor->shape) +
                                       "; the target's is " + shape_text(shape)};
    return;
  }
  taken_.push_back(from);
}

bool CheckpointReader::leave_out_all(std::string_view from) {
  const std::size_t before = taken_.size();
  const auto& tensors = checkpoint_.tensors();
  for (auto at = tensors.lower_bound(std::string(from));
       at != tensors.end() && at->first.starts_with(from); ++at) {
    taken_.push_back(at->first);
  }
  return taken_.size() > before;
}

void CheckpointReader::refuse_others() {
  if (error_) return;
  std::sort(taken_.begin(), taken_.end());
  for (const auto& [name, tensor] : checkpoint_.tensors()) {
    // Old checkpoints store frequencies, which the configuration implies.
    if (name.ends_with("rotary_emb.inv_freq")) continue;
    if (std::binary_search(taken_.begin(), taken_.end(), name)) continue;
    error_ = Error{Errc::unsupported, "the checkpoint has the tensor " + name +
                                          ", which a model of this kind does not have"};
    return;
  }
}

}  // namespace edgedraft
