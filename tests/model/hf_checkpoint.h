#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/raw_gguf.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::test {

// A folder in Hugging Face's layout with given values.
struct HfCheckpoint {
  using Shape = std::vector<std::uint64_t>;
  struct Tensor {
    std::string type;
    Shape shape;
    Bytes bytes;
  };

  nlohmann::json config;
  std::map<std::string, Tensor> tensors;

  void add(const std::string& name, Shape shape, const std::vector<float>& values) {
    const ByteView bytes = std::as_bytes(std::span(values));
    tensors[name] = {"F32", std::move(shape), Bytes(bytes.begin(), bytes.end())};
  }

  void write(const TemporaryDirectory& to) const {
    nlohmann::json header = nlohmann::json::object();
    ByteWriter data;
    for (const auto& [name, tensor] : tensors) {
      const std::size_t begin = data.bytes().size();
      data.raw(tensor.bytes);
      header[name] = {{"dtype", tensor.type},
                      {"shape", tensor.shape},
                      {"data_offsets", {begin, data.bytes().size()}}};
    }
    to.write("model.safetensors", ByteWriter().string(header.dump()).raw(data.bytes()).bytes());
    to.write("config.json", config.dump());
  }
};

}  // namespace edgedraft::test
