#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/model/gguf.h"
#include "shared/tensor/dtype.h"
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

  // Adds a file's tensors as F32, but for those in `without`, with the parts of their names
  // replaced in this order.
  void add_all(const GgufFile& file, std::span<const std::string_view> without,
               std::span<const std::pair<std::string, std::string>> parts) {
    for (const GgufTensor& tensor : file.tensors()) {
      std::string name(tensor.name);
      if (std::ranges::find(without, name) != without.end()) continue;
      for (const auto& [from, to] : parts) {
        if (const std::size_t at = name.find(from); at != name.npos) {
          name.replace(at, from.size(), to);
        }
      }
      std::vector<float> values(tensor.rows() * tensor.cols());
      dequantize_row(tensor.type, tensor.bytes, values);
      add(name, {tensor.dims.rbegin(), tensor.dims.rend()}, values);
    }
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
