#include "client/devices/cache_file.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "client/version.h"
#include "shared/base/bytes.h"
#include "shared/model/atomic_file.h"

namespace edgedraft::client {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kFileBytesMax = 1u << 20;

}  // namespace

std::optional<json> read_cache_file(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::file_size(file, error) > kFileBytesMax || error) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  json stored = json::parse(in, nullptr, false);
  if (!stored.is_object() || stored.value("version", json()) != kVersion) return std::nullopt;
  return stored;
}

Result<void> write_cache_file(const std::filesystem::path& file, json content) {
  if (file.empty()) return Error{Errc::io, "no folder to store it in: set HOME or XDG_CACHE_HOME"};
  content["version"] = kVersion;
  const std::string text = content.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) return Error{Errc::io, file.parent_path().string() + ": " + error.message()};
  auto out = AtomicFile::create(file);
  if (!out) return out.error();
  if (auto written = out->append(as_byte_view(text)); !written) return written;
  return out->commit();
}

}  // namespace edgedraft::client
