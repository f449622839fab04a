#include "shared/model/json_file.h"

#include <utility>

#include "shared/base/json_shape.h"
#include "shared/model/mapped_file.h"

namespace edgedraft {
namespace {

constexpr std::size_t kJsonBytesMax = 64u << 20;

Error wrong(const char* key, std::string_view wanted) {
  std::string message(1, '"');
  message.append(key).append("\" is not ").append(wanted);
  return {Errc::bad_file, std::move(message)};
}

const nlohmann::json* member(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace

Result<nlohmann::json> read_json_object(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  if (!file) return file.error();
  const ByteView bytes = file->bytes();
  if (bytes.size() > kJsonBytesMax) {
    return Error{Errc::bad_file, path.string() + " is longer than 64 MiB"};
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // The parser would accept it, but copying a value recurses once per level.
  if (!has_readable_depth(text)) {
    return Error{Errc::bad_file,
                 path.string() + " nests deeper than " + std::to_string(kJsonDepthMax) + " levels"};
  }
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return Error{Errc::bad_file, path.string() + " is not a JSON object"};
  return Result<nlohmann::json>(boost::system::in_place_value, std::move(json));
}

Result<std::optional<std::uint32_t>> json_u32(const nlohmann::json& object, const char* key) {
  const nlohmann::json* value = member(object, key);
  if (value == nullptr) return std::optional<std::uint32_t>{};
  if (!value->is_number_unsigned() || !std::in_range<std::uint32_t>(value->get<std::uint64_t>())) {
    return wrong(key, "a 32-bit count");
  }
  return std::optional<std::uint32_t>{static_cast<std::uint32_t>(value->get<std::uint64_t>())};
}

Result<std::optional<double>> json_number(const nlohmann::json& object, const char* key) {
  const nlohmann::json* value = member(object, key);
  if (value == nullptr) return std::optional<double>{};
  if (!value->is_number()) return wrong(key, "a number");
  return std::optional<double>{value->get<double>()};
}

Result<std::optional<bool>> json_bool(const nlohmann::json& object, const char* key) {
  const nlohmann::json* value = member(object, key);
  if (value == nullptr) return std::optional<bool>{};
  if (!value->is_boolean()) return wrong(key, "a boolean");
  return std::optional<bool>{value->get<bool>()};
}

Result<std::optional<std::string>> json_string(const nlohmann::json& object, const char* key) {
  const nlohmann::json* value = member(object, key);
  if (value == nullptr) return std::optional<std::string>{};
  if (!value->is_string()) return wrong(key, "a string");
  return std::optional<std::string>{value->get<std::string>()};
}

}  // namespace edgedraft
