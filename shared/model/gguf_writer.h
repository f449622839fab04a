#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/model/gguf.h"
#include "shared/tensor/dtype.h"

namespace edgedraft {

// Metadata of a file to write, by key.
class GgufMetadata {
 public:
  struct Value {
    GgufType type;
    Bytes bytes;  // as stored in the file, without the type
  };

  void set_u32(const std::string& key, std::uint32_t value);
  void set_f32(const std::string& key, float value);
  void set_bool(const std::string& key, bool value);
  void set_string(const std::string& key, std::string_view value);
  void set_strings(const std::string& key, std::span<const std::string> values);
  void set_f32s(const std::string& key, std::span<const float> values);
  void set_i32s(const std::string& key, std::span<const std::int32_t> values);
  void set_bools(const std::string& key, const std::vector<bool>& values);
  // Copies a value of another file.
  void set(const std::string& key, const GgufValue& value);
  void erase(const std::string& key) { values_.erase(key); }

  const std::map<std::string, Value>& values() const { return values_; }
  // Views of the values, as a reader would have them.
  GgufKeys keys() const;

 private:
  std::map<std::string, Value> values_;
};

// A tensor to write.
struct GgufTensorInfo {
  std::string name;
  DType type = DType::f32;
  std::vector<std::uint64_t> dims;  // innermost first; cols must be whole blocks

  std::uint64_t byte_count() const;
};

// Writes a GGUF v3 file from front to back. The file appears under its name only after finish();
// failures leave nothing (AtomicFile). Stores the model's fingerprint (fingerprint.h) in the
// metadata itself.
//
// Errors    io, from every call: the system's message; a full disk is named as such
class GgufWriter {
 public:
  // Requires  tensor names unique
  static Result<GgufWriter> create(const std::filesystem::path& path, const GgufMetadata& metadata,
                                   std::vector<GgufTensorInfo> tensors);
  ~GgufWriter();
  GgufWriter(GgufWriter&&) noexcept;
  GgufWriter& operator=(GgufWriter&&) noexcept;

  // The tensors' next bytes, in the order given to create(); pieces of any length within one
  // tensor.
  Result<void> write(ByteView bytes);

  // Puts the file in place, durably. Requires all tensors written.
  Result<void> finish();

 private:
  struct State;
  explicit GgufWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace edgedraft
