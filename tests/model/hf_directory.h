#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/random.h"
#include "shared/model/sentencepiece_proto.h"
#include "shared/tensor/dtype.h"
#include "tests/model/raw_gguf.h"
#include "tests/model/tiny_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::test {

// A Hugging Face checkpoint: a Llama of one layer, width 32, 4 query heads over 2 key heads of 8,
// ffn 48. Tests modify it before they write it.
struct HfDirectory {
  using Shape = std::vector<std::uint64_t>;

  nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                           {"hidden_size", 32},
                           {"num_hidden_layers", 1},
                           {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},
                           {"intermediate_size", 48},
                           {"vocab_size", 300},
                           {"max_position_embeddings", 128},
                           {"rms_norm_eps", 1e-6},
                           {"rope_theta", 5000.0},
                           {"tie_word_embeddings", false},
                           {"bos_token_id", 1},
                           {"eos_token_id", {2, 259}}};
  nlohmann::json tokenizer_config = {{"bos_token", "<s>"},
                                     {"eos_token", {{"content", "<|end|>"}}},
                                     {"add_bos_token", true},
                                     {"add_prefix_space", false},
                                     {"chat_template", "{{ messages[0].content }}"}};
  std::map<std::string, Shape> tensors = {
      {"model.embed_tokens.weight", {300, 32}},
      {"lm_head.weight", {300, 32}},
      {"model.norm.weight", {32}},
      {"model.layers.0.input_layernorm.weight", {32}},
      {"model.layers.0.post_attention_layernorm.weight", {32}},
      {"model.layers.0.self_attn.q_proj.weight", {32, 32}},
      {"model.layers.0.self_attn.k_proj.weight", {16, 32}},
      {"model.layers.0.self_attn.v_proj.weight", {16, 32}},
      {"model.layers.0.self_attn.o_proj.weight", {32, 32}},
      {"model.layers.0.mlp.gate_proj.weight", {48, 32}},
      {"model.layers.0.mlp.up_proj.weight", {48, 32}},
      {"model.layers.0.mlp.down_proj.weight", {32, 48}},
  };

  std::map<std::string, std::vector<std::int64_t>> integers = {};  // tensors of I64

  DType type = DType::f32;  // f32, f16 or bf16
  float scale = 1.0f;       // values are between -scale / 2 and scale / 2

  static float value_at(const std::string& name, std::uint64_t index) {
    return static_cast<float>(uniform_at(std::hash<std::string>()(name), index) - 0.5);
  }

  void write(const TemporaryDirectory& to) const {
    nlohmann::json header = nlohmann::json::object();
    ByteWriter data;
    for (const auto& [name, shape] : tensors) {
      std::uint64_t count = 1;
      for (const std::uint64_t dim : shape) count *= dim;
      const std::size_t begin = data.bytes().size();
      std::vector<float> numbers(count);
      for (std::uint64_t i = 0; i < count; ++i) numbers[i] = scale * value_at(name, i);
      Bytes stored(row_bytes(type, count).value());
      quantize_row(type, numbers, stored);
      data.raw(stored);
      const char* dtype = type == DType::f32 ? "F32" : type == DType::f16 ? "F16" : "BF16";
      header[name] = {
          {"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, data.bytes().size()}}};
    }
    for (const auto& [name, values] : integers) {
      const std::size_t begin = data.bytes().size();
      data.raw(std::as_bytes(std::span(values)));
      header[name] = {{"dtype", "I64"},
                      {"shape", {values.size()}},
                      {"data_offsets", {begin, data.bytes().size()}}};
    }
    to.write("model.safetensors", ByteWriter().string(header.dump()).raw(data.bytes()).bytes());
    to.write("config.json", config.dump());
  }

  // Writes the tiny vocabulary as tokenizer.model, and tokenizer_config.json.
  void write_tokenizer(const TemporaryDirectory& to) const {
    const TinyVocabulary vocabulary;
    SentencePieceModel model;
    for (std::size_t i = 0; i < vocabulary.texts.size(); ++i) {
      model.pieces.push_back(
          {vocabulary.texts[i], vocabulary.scores[i], static_cast<TokenType>(vocabulary.types[i])});
    }
    model.algorithm = SentencePieceModel::Algorithm::bpe;
    model.byte_fallback = true;
    model.remove_extra_whitespaces = false;
    to.write("tokenizer.model", encode_sentencepiece_model(model));
    to.write("tokenizer_config.json", tokenizer_config.dump());
  }
};

}  // namespace edgedraft::test
