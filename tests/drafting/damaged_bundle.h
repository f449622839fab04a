#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "shared/model/gguf.h"
#include "shared/model/gguf_writer.h"

namespace edgedraft::testing {

// Changes to a copy of a bundle: tensors removed, shortened by a row, with other values, or
// duplicated under another prefix.
struct Damage {
  std::string key = {};
  std::string tensor = {};
  std::string cut_tensor = {};
  std::map<std::string, std::vector<std::int32_t>> i32s = {};
  std::map<std::string, std::uint32_t> u32s = {};
  std::map<std::string, std::string> strings = {};
  std::map<std::string, std::string> copies = {};  // prefix to prefix of the copy
};

inline void write_damaged(const GgufFile& file, const std::filesystem::path& path,
                          const Damage& damage) {
  GgufMetadata metadata;
  for (const auto& [key, value] : file.metadata()) metadata.set(std::string(key), value);
  metadata.erase(damage.key);
  for (const auto& [key, values] : damage.i32s) metadata.set_i32s(key, values);
  for (const auto& [key, value] : damage.u32s) metadata.set_u32(key, value);
  for (const auto& [key, value] : damage.strings) metadata.set_string(key, value);
  std::vector<GgufTensorInfo> infos;
  std::vector<ByteView> contents;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == damage.tensor) continue;
    GgufTensorInfo info{std::string(tensor.name), tensor.type, tensor.dims};
    if (tensor.name == damage.cut_tensor) info.dims.back() -= 1;
    contents.push_back(tensor.bytes.first(info.byte_count()));
    infos.push_back(std::move(info));
    for (const auto& [from, to] : damage.copies) {
      if (!tensor.name.starts_with(from)) continue;
      contents.push_back(tensor.bytes);
      infos.push_back(
          {to + std::string(tensor.name.substr(from.size())), tensor.type, tensor.dims});
    }
  }
  auto writer = GgufWriter::create(path, metadata, std::move(infos));
  ASSERT_TRUE(writer);
  for (const ByteView content : contents) ASSERT_TRUE(writer->write(content));
  ASSERT_TRUE(writer->finish());
}

}  // namespace edgedraft::testing
