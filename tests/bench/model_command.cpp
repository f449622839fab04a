#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/progress.h"
#include "shared/base/random.h"
#include "shared/model/gguf_writer.h"
#include "shared/model/model_plan.h"
#include "shared/program/program.h"
#include "shared/tensor/dtype.h"
#include "tests/bench/commands.h"
#include "tests/bench/known_shapes.h"

namespace edgedraft::bench {
namespace {

struct ModelOptions {
  std::string shape = "tinyllama";
  std::string type = "q8_0";
  std::filesystem::path output;
};

constexpr const char* kModelHelp =
    R"(Writes a GGUF file with the sizes of a known model and random weights: its answers are nonsense, its
cost in time and memory is real. Its tokenizer has byte tokens only.

Example:
  edgedraft-bench model --shape tinyllama --type q8_0 -o /tmp/random.gguf
  edgedraft-server --model /tmp/random.gguf --listen 127.0.0.1:0 ...)";

GgufMetadata metadata_of(const KnownShape& s, DType type) {
  GgufMetadata metadata;
  metadata.set_string("general.architecture", "llama");
  metadata.set_string("general.name", "random-" + std::string(s.name));
  set_file_type(metadata, type);
  metadata.set_u32("llama.vocab_size", s.vocabulary);
  metadata.set_u32("llama.context_length", s.context);
  metadata.set_u32("llama.embedding_length", s.dim);
  metadata.set_u32("llama.block_count", s.layers);
  metadata.set_u32("llama.feed_forward_length", s.ffn_dim);
  metadata.set_u32("llama.attention.head_count", s.heads.query_heads);
  metadata.set_u32("llama.attention.head_count_kv", s.heads.kv_heads);
  metadata.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  metadata.set_u32("llama.rope.dimension_count", s.heads.head_dim);
  metadata.set_f32("llama.rope.freq_base", s.theta);

  std::vector<std::string> texts = {"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> kinds = {2, 3, 3};
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "<0x%02X>", byte);
    texts.emplace_back(text.data());
    kinds.push_back(6);
  }
  while (texts.size() < s.vocabulary) {
    texts.push_back("[PAD" + std::to_string(texts.size()) + "]");
    kinds.push_back(5);
  }
  metadata.set_string("tokenizer.ggml.model", "llama");
  metadata.set_strings("tokenizer.ggml.tokens", texts);
  metadata.set_f32s("tokenizer.ggml.scores", std::vector<float>(texts.size(), 0.0f));
  metadata.set_i32s("tokenizer.ggml.token_type", kinds);
  metadata.set_u32("tokenizer.ggml.bos_token_id", 1);
  metadata.set_u32("tokenizer.ggml.eos_token_id", 2);
  return metadata;
}

std::vector<GgufTensorInfo> tensors_of(const KnownShape& s, DType type) {
  std::vector<GgufTensorInfo> tensors;
  const auto matrix = [&](std::string name, std::uint32_t rows, std::uint32_t cols) {
    const std::array<std::uint64_t, 2> dims{cols, rows};
    tensors.push_back({std::move(name), stored_type(type, dims), {cols, rows}});
  };
  const auto norm = [&](std::string name) {
    tensors.push_back({std::move(name), DType::f32, {s.dim}});
  };
  const std::uint32_t kv_cols = s.heads.kv_cols();
  matrix("token_embd.weight", s.vocabulary, s.dim);
  for (std::uint32_t i = 0; i < s.layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    norm(layer + "attn_norm.weight");
    matrix(layer + "attn_q.weight", s.dim, s.dim);
    matrix(layer + "attn_k.weight", kv_cols, s.dim);
    matrix(layer + "attn_v.weight", kv_cols, s.dim);
    matrix(layer + "attn_output.weight", s.dim, s.dim);
    norm(layer + "ffn_norm.weight");
    matrix(layer + "ffn_gate.weight", s.ffn_dim, s.dim);
    matrix(layer + "ffn_up.weight", s.ffn_dim, s.dim);
    matrix(layer + "ffn_down.weight", s.dim, s.ffn_dim);
  }
  norm("output_norm.weight");
  matrix("output.weight", s.vocabulary, s.dim);
  return tensors;
}

// A few random rows used in rotation. Their number divides no matrix size, so their combinations
// vary.
std::vector<Bytes> random_rows(DType type, std::uint64_t cols, Random& random) {
  constexpr std::size_t kCount = 61;
  const double width = std::sqrt(12.0 / static_cast<double>(cols));
  std::vector<Bytes> rows;
  std::vector<float> numbers(cols);
  for (std::size_t i = 0; i < kCount; ++i) {
    for (float& x : numbers) x = static_cast<float>((random.uniform() - 0.5) * width);
    quantize_row(type, numbers, rows.emplace_back(row_bytes(type, cols).value()));
  }
  return rows;
}

Result<void> write_tensor(GgufWriter& writer, const GgufTensorInfo& tensor, Random& random) {
  if (tensor.dims.size() == 1) {
    const std::vector<float> ones(tensor.dims[0], 1.0f);
    return writer.write(std::as_bytes(std::span(ones)));
  }
  const std::vector<Bytes> rows = random_rows(tensor.type, tensor.dims[0], random);
  for (std::uint64_t r = 0; r < tensor.dims[1]; ++r) {
    if (auto written = writer.write(rows[r % rows.size()]); !written) return written;
  }
  return boost::system::in_place_value;
}

void declare_model(CLI::App& app, ModelOptions& options) {
  app.footer(kModelHelp);
  app.add_option("--shape", options.shape, "Sizes: " + known_shape_names())->capture_default_str();
  app.add_option("--type", options.type, "Type of the weights: f16, q8_0, q4_k or another")
      ->capture_default_str();
  app.add_option("-o,--output", options.output, "GGUF file to write");
}

// Writes a model of random weights. Returns the exit status.
Result<int> run_model(const ModelOptions& options) {
  if (options.output.empty()) return Error{Errc::usage, "missing -o FILE.gguf"};
  const auto shape = find_known_shape(options.shape);
  if (!shape) return shape.error();
  const auto type = dtype_from_name(options.type);
  if (!type || !is_writable(*type)) {
    return Error{Errc::usage, "--type " + options.type + ": not a type that can be written"};
  }
  const std::vector<GgufTensorInfo> tensors = tensors_of(*shape, *type);
  auto writer = GgufWriter::create(options.output, metadata_of(*shape, *type), tensors);
  if (!writer) return writer.error();
  std::uint64_t total = 0;
  for (const GgufTensorInfo& tensor : tensors) total += tensor.byte_count();
  Progress progress("writing " + options.output.filename().string(), total);
  Random random(1);
  for (const GgufTensorInfo& tensor : tensors) {
    if (auto written = write_tensor(*writer, tensor, random); !written) return written.error();
    progress.advance(tensor.byte_count());
  }
  if (auto finished = writer->finish(); !finished) return finished.error();
  return 0;
}

}  // namespace

void add_model(Program& program) {
  static ModelOptions options;
  program.command("model", "Write a model of random weights", options, declare_model, run_model);
}

}  // namespace edgedraft::bench
