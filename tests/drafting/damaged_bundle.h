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

// What a copy of a bundle lacks, a tensor that is a row too short, and arrays that are others.
struct Damage {
  std::string key = {};
  std::string tensor = {};
  std::string cut_tensor = {};
  std::map<std::string, std::vector<std::int32_t>> i32s = {};
};

inline void write_damaged(const GgufFile& file, const std::filesystem::path& path,
                          const Damage& damage) {
  GgufMetadata metadata;
  for (const auto& [key, value] : file.metadata()) metadata.set(std::string(key), value);
  metadata.erase(damage.key);
  for (const auto& [key, values] : damage.i32s) metadata.set_i32s(key, values);
  std::vector<GgufTensorInfo> infos;
  std::vector<ByteView> contents;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == damage.tensor) continue;
    GgufTensorInfo info{std::string(tensor.name), tensor.type, tensor.dims};
    if (tensor.name == damage.cut_tensor) info.dims.back() -= 1;
    contents.push_back(tensor.bytes.first(info.byte_count()));
    infos.push_back(std::move(info));
  }
  auto writer = GgufWriter::create(path, metadata, std::move(infos));
  ASSERT_TRUE(writer);
  for (const ByteView content : contents) ASSERT_TRUE(writer->write(content));
  ASSERT_TRUE(writer->finish());
}

}  // namespace edgedraft::testing
