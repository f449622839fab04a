#include "client/vulkan/pipeline_cache_file.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "shared/base/sha256.h"
#include "shared/model/atomic_file.h"
#include "shared/model/mapped_file.h"

namespace edgedraft::client::vulkan {
namespace {

constexpr std::size_t kDigestBytes = std::tuple_size_v<Digest>;
constexpr std::size_t kFileBytesMax = std::size_t{256} << 20;

// Checks the standard header of a driver's data (version one).
bool fits(ByteView data, const VkPhysicalDeviceProperties& device) {
  VkPipelineCacheHeaderVersionOne header;
  if (data.size() < sizeof header) return false;
  std::memcpy(&header, data.data(), sizeof header);
  return header.headerSize >= sizeof header && header.headerSize <= data.size() &&
         header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
         header.vendorID == device.vendorID && header.deviceID == device.deviceID &&
         std::equal(std::begin(header.pipelineCacheUUID), std::end(header.pipelineCacheUUID),
                    std::begin(device.pipelineCacheUUID));
}

}  // namespace

std::string pipeline_cache_name(const VkPhysicalDeviceProperties& device) {
  return "vulkan-" + to_hex(std::as_bytes(std::span(device.pipelineCacheUUID))) + ".pipelines";
}

Bytes read_pipeline_cache(const std::filesystem::path& file,
                          const VkPhysicalDeviceProperties& device) {
  const auto mapped = MappedFile::open(file);
  if (!mapped) return {};
  const ByteView all = mapped->bytes();
  if (all.size() < kDigestBytes || all.size() > kFileBytesMax) return {};
  const ByteView data = all.subspan(kDigestBytes);
  const Digest digest = sha256(data);
  if (!std::equal(digest.begin(), digest.end(), all.begin()) || !fits(data, device)) return {};
  return {data.begin(), data.end()};
}

void write_pipeline_cache(const std::filesystem::path& file, ByteView data) {
  if (data.size() + kDigestBytes > kFileBytesMax) return;
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  auto out = AtomicFile::create(file);
  if (!out) return;
  const Digest digest = sha256(data);
  if (!out->append(digest) || !out->append(data)) return;
  static_cast<void>(out->commit());  // on a full disk, the next start compiles again
}

}  // namespace edgedraft::client::vulkan
