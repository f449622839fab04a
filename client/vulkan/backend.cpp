#include "client/vulkan/backend.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "client/vulkan/scratch_sizes.h"
#include "shared/base/check.h"
#include "shared/tensor/coded_blocks.h"

namespace edgedraft::client::vulkan {
namespace {

// Small enough to waste little on devices with little memory, and large enough for few blocks per
// model.
constexpr std::uint64_t kBlockBytes = std::uint64_t{64} << 20;
// Smaller writes go with the surrounding commands instead of a submission of their own.
constexpr std::uint64_t kSmallBytes = std::uint64_t{128} << 10;
constexpr std::uint64_t kPartAlignment = 256;

std::uint64_t matrix_bytes(const Matrix& m) {
  return std::uint64_t{m.rows} * m.cols * sizeof(float);
}

// A GPU reads weights fastest if neighbouring lanes read neighbouring words. A software rasteriser
// loads lane by lane, but loads a value common to all lanes once, so each lane has its own outputs.
MatmulTile tile_for(const VulkanDevice& device, const Hooks& hooks) {
  if (device.kind == VulkanDevice::Kind::software && !hooks.as_gpu) {
    return {.workgroup = 8, .lanes = 1, .outputs_max = 2, .workgroups_wanted = 0};
  }
  return {.workgroup = 64, .lanes = 32, .outputs_max = 4, .workgroups_wanted = 1024};
}

bool is_packed(const Matrix& m) {
  return m.stride == m.cols || m.rows == 1;
}

}  // namespace

VulkanBackend::VulkanBackend(const Hooks& hooks, const VulkanBackendOptions& options)
    : MeasuredBackend(options.meter),
      device_(hooks, options),
      kv_type_(options.kv_type),
      matmul_tile_(tile_for(device_.description(), hooks)),
      // With a memory limit, blocks are no larger than their contents.
      arena_(device_, meter(),
             {.wanted = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
              .preferred = 0,
              .block_bytes = meter()->is_limited() ? 0 : kBlockBytes}),
      pipelines_(device_, options.cache_directory),
      stream_(device_, pipelines_, meter()),
      transfers_(device_, meter()) {
  if (!takes_cache_type(kv_type_)) {
    throw Failure({Errc::unsupported, device_.description().name +
                                          " supports KV caches in f32 and int8, and in f16 with 8- "
                                          "and 16-bit storage, but not in " +
                                          std::string(traits(kv_type_).name)});
  }
  arena_.on_release([this](const Block& block) { stream_.forget(block); });
}

VulkanBackend::~VulkanBackend() {
  device_.wait_idle();
  arena_.on_release({});
}

std::unique_ptr<Buffer> VulkanBackend::allocate(std::uint64_t floats) {
  const auto bytes = checked_mul(floats, sizeof(float));
  if (!bytes)
    throw DeviceError("out of device memory: " + std::to_string(floats) + " floats requested");
  auto buffer = std::make_unique<DeviceBuffer>(arena_.allocate(*bytes), *bytes);
  const Allocation& memory = buffer->memory();
  Command command;
  command.kind = Command::fill;
  command.slices[0] = {.block = memory.block(), .offset = memory.offset(), .bytes = memory.bytes()};
  command.written = 1;
  stream_.reserve(0, 0);
  stream_.add(command);
  return buffer;
}

std::unique_ptr<Buffer> VulkanBackend::upload(ByteView bytes) {
  auto buffer = std::make_unique<DeviceBuffer>(arena_.allocate(bytes.size()), bytes.size());
  stream_.flush();
  transfers_.write({.block = buffer->memory().block(),
                    .offset = buffer->memory().offset(),
                    .bytes = bytes.size()},
                   [&](std::span<std::byte> to, std::uint64_t offset) {
                     std::memcpy(to.data(), bytes.data() + offset, to.size());
                   });
  return buffer;
}

std::unique_ptr<Buffer> VulkanBackend::upload_table(const MatrixBytes& table) {
  if (!is_coded(table.type)) return upload(table.bytes);
  const std::size_t from = traits(table.type).block_bytes;
  const std::size_t coded = coded_block_bytes(table.type);
  EDGEDRAFT_CHECK(table.bytes.size() % from == 0);
  const std::uint64_t bytes = table.bytes.size() / from * coded;
  auto buffer = std::make_unique<DeviceBuffer>(arena_.allocate(bytes), bytes);
  stream_.flush();
  // Recoded in staging memory; blocks at the edges of a piece are recoded for both pieces.
  transfers_.write(
      {.block = buffer->memory().block(), .offset = buffer->memory().offset(), .bytes = bytes},
      [&](std::span<std::byte> to, std::uint64_t offset) {
        std::array<std::byte, coded_block_bytes(DType::q3_k)> block;
        while (!to.empty()) {
          blocks::code_block(table.type, &table.bytes[offset / coded * from], block.data());
          const auto piece = std::span(block).first(coded).subspan(offset % coded);
          const std::size_t count = std::min(piece.size(), to.size());
          std::memcpy(to.data(), piece.data(), count);
          to = to.subspan(count);
          offset += count;
        }
      });
  return buffer;
}

std::unique_ptr<Buffer> VulkanBackend::upload_matrix(const MatrixBytes& matrix) {
  if (!is_split(matrix.type)) return upload_table(matrix);
  constexpr std::size_t kScaleBytes = 2;
  const std::size_t block_bytes = traits(matrix.type).block_bytes;
  const std::size_t number_bytes = block_bytes - kScaleBytes;
  const std::size_t blocks = matrix.bytes.size() / block_bytes;
  EDGEDRAFT_CHECK(matrix.bytes.size() == row_bytes(matrix.type, matrix.cols).value() * matrix.rows);
  const std::uint64_t numbers_bytes = blocks * number_bytes;
  const std::uint64_t scales_at =
      (numbers_bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  const std::uint64_t bytes = scales_at + blocks * kScaleBytes;
  auto buffer = std::make_unique<DeviceBuffer>(arena_.allocate(bytes), bytes, scales_at);
  const Allocation& memory = buffer->memory();
  stream_.flush();
  // Pieces begin at whole blocks, because they are multiples of 1 KiB.
  transfers_.write(
      {.block = memory.block(), .offset = memory.offset(), .bytes = numbers_bytes},
      [&](std::span<std::byte> to, std::uint64_t offset) {
        const std::byte* from = matrix.bytes.data() + offset / number_bytes * block_bytes;
        for (std::size_t at = 0; at < to.size(); at += number_bytes, from += block_bytes) {
          std::memcpy(&to[at], from + kScaleBytes, number_bytes);
        }
      });
  transfers_.write(
      {.block = memory.block(),
       .offset = memory.offset() + scales_at,
       .bytes = blocks * kScaleBytes},
      [&](std::span<std::byte> to, std::uint64_t offset) {
        const std::byte* from = matrix.bytes.data() + offset / kScaleBytes * block_bytes;
        for (std::size_t at = 0; at < to.size(); at += kScaleBytes, from += block_bytes) {
          std::memcpy(&to[at], from, kScaleBytes);
        }
      });
  return buffer;
}

const DeviceBuffer& VulkanBackend::device_buffer(const Buffer* buffer) {
  EDGEDRAFT_CHECK(buffer != nullptr);
  return static_cast<const DeviceBuffer&>(*buffer);
}

Slice VulkanBackend::slice(const DeviceBuffer& buffer, std::uint64_t offset, std::uint64_t bytes,
                           std::uint64_t& added) const {
  const std::uint64_t begin = buffer.memory().offset() + offset;
  added = begin % device_.storage_alignment();
  // Shaders read whole vectors: the allocation extends to the end of the last one.
  const std::uint64_t end = (begin + bytes + 15) / 16 * 16;
  const Slice slice{
      .block = buffer.memory().block(), .offset = begin - added, .bytes = end - begin + added};
  if (slice.bytes > device_.storage_range_max()) {
    throw DeviceError("a matrix of " + std::to_string(bytes) +
                      " bytes is too large for the device, which binds at most " +
                      std::to_string(device_.storage_range_max()));
  }
  return slice;
}

VulkanBackend::View VulkanBackend::view(const CacheRows& m) const {
  const DeviceBuffer& buffer = device_buffer(m.buffer);
  EDGEDRAFT_CHECK(!buffer.scales_at());
  EDGEDRAFT_CHECK(m.stride >= m.cols || m.rows <= 1);
  EDGEDRAFT_CHECK(m.rows > 0 && m.cols > 0);
  const std::uint64_t extent = (m.rows - 1) * m.stride + m.cols;
  EDGEDRAFT_CHECK(cache_bytes(m.type, m.offset + extent) <= buffer.bytes());
  std::uint64_t added = 0;
  const Slice s = slice(buffer, cache_bytes(m.type, m.offset), cache_bytes(m.type, extent), added);
  // Shaders read int8 as words.
  const std::uint64_t unit_bytes = m.type == DType::i8 ? sizeof(float) : cache_bytes(m.type, 1);
  return {.slice = s,
          .offset = static_cast<std::uint32_t>(added / unit_bytes),
          .stride = static_cast<std::uint32_t>(cache_bytes(m.type, m.stride) / unit_bytes)};
}

VulkanBackend::View VulkanBackend::view(const CacheView& cache) const {
  EDGEDRAFT_CHECK(!cache.paged());
  EDGEDRAFT_CHECK(takes_cache_type(cache.memory.type));
  return view(cache.memory);
}

VulkanBackend::View VulkanBackend::view(const Weight& w) const {
  EDGEDRAFT_CHECK(w.type == DType::f32);
  EDGEDRAFT_CHECK(w.offset_bytes % sizeof(float) == 0);
  const DeviceBuffer& buffer = device_buffer(w.buffer);
  const std::uint64_t bytes = std::uint64_t{w.rows} * w.cols * sizeof(float);
  EDGEDRAFT_CHECK(w.offset_bytes <= buffer.bytes() && bytes <= buffer.bytes() - w.offset_bytes);
  std::uint64_t added = 0;
  const Slice s = slice(buffer, w.offset_bytes, bytes, added);
  return {
      .slice = s, .offset = static_cast<std::uint32_t>(added / sizeof(float)), .stride = w.cols};
}

std::vector<VulkanBackend::WeightPart> VulkanBackend::parts(const Weight& w) const {
  const DeviceBuffer& buffer = device_buffer(w.buffer);
  const std::uint64_t file_row = stored_row_bytes(w.type, w.cols);
  const std::uint64_t scales_row =
      buffer.scales_at() ? std::uint64_t{w.cols} / traits(w.type).block_count * 2 : 0;
  const std::uint64_t row = file_row - scales_row;
  EDGEDRAFT_CHECK(w.offset_bytes <= buffer.bytes());
  EDGEDRAFT_CHECK(file_row * w.rows <= buffer.bytes() - w.offset_bytes);
  // A multiple of eight rows aligns parts to whole vectors.
  constexpr std::uint64_t kRowUnit = 8;
  const std::uint64_t room = device_.storage_range_max() - 2 * device_.storage_alignment();
  const std::uint64_t rows_max = std::max<std::uint64_t>(room / row / kRowUnit, 1) * kRowUnit;
  std::vector<WeightPart> parts;
  for (std::uint64_t first = 0; first < w.rows; first += rows_max) {
    const std::uint64_t count = std::min<std::uint64_t>(rows_max, w.rows - first);
    WeightPart part{.first = static_cast<std::uint32_t>(first),
                    .count = static_cast<std::uint32_t>(count)};
    std::uint64_t added = 0;
    part.slice = slice(buffer, w.offset_bytes + first * row, count * row, added);
    part.offset_bytes = static_cast<std::uint32_t>(added);
    part.scales = part.slice;
    if (buffer.scales_at()) {
      part.scales =
          slice(buffer, *buffer.scales_at() + first * scales_row, count * scales_row, added);
      part.scale_offset = static_cast<std::uint32_t>(added / 2);
    }
    parts.push_back(part);
  }
  return parts;
}

Command VulkanBackend::copy_of(Command::Kind kind, const Matrix& m,
                               std::uint64_t host_offset) const {
  const View v = view(m);
  Command command;
  command.kind = kind;
  const bool is_whole = is_packed(m);
  const std::uint64_t offset_bytes = v.offset * sizeof(float);
  command.slices[0] = {.block = v.slice.block,
                       .offset = v.slice.offset + offset_bytes,
                       .bytes = is_whole ? matrix_bytes(m) : v.slice.bytes - offset_bytes};
  command.written = kind == Command::copy_in ? 1 : 0;
  command.host_offset = host_offset;
  command.row_bytes = is_whole ? matrix_bytes(m) : m.cols * sizeof(float);
  command.row_stride_bytes = is_whole ? command.row_bytes : m.stride * sizeof(float);
  command.row_count = is_whole ? 1 : m.rows;
  return command;
}

void VulkanBackend::write(const Matrix& to, std::span<const float> from) {
  EDGEDRAFT_CHECK(from.size() == std::size_t{to.rows} * to.cols);
  if (from.empty()) return;
  if (from.size_bytes() <= kSmallBytes) {
    stream_.reserve(from.size_bytes(), 0);
    const std::uint64_t at = std::uint64_t{stream_.put(from)} * sizeof(float);
    stream_.add(copy_of(Command::copy_in, to, at));
    return;
  }
  stream_.flush();
  const Command where = copy_of(Command::copy_in, to, 0);
  transfers_.write_rows(
      where.slices[0],
      {.bytes = where.row_bytes, .stride_bytes = where.row_stride_bytes, .count = where.row_count},
      std::as_bytes(from));
}

void VulkanBackend::wait() {
  stream_.flush();
  device_.wait_all();
}

void VulkanBackend::read(const Matrix& from, std::span<float> to) {
  EDGEDRAFT_CHECK(to.size() == std::size_t{from.rows} * from.cols);
  if (to.empty()) return wait();
  if (to.size_bytes() <= kSmallBytes) {
    stream_.reserve(0, to.size_bytes());
    const std::uint64_t at = stream_.add_result(to.size_bytes());
    stream_.add(copy_of(Command::copy_out, from, at));
    std::memcpy(to.data(), stream_.finish().data() + at, to.size_bytes());
    return;
  }
  stream_.flush();
  const Command where = copy_of(Command::copy_out, from, 0);
  transfers_.read(
      where.slices[0],
      {.bytes = where.row_bytes, .stride_bytes = where.row_stride_bytes, .count = where.row_count},
      std::as_writable_bytes(to));
}

void VulkanBackend::read_cache(const CacheRows& from, std::span<float> to) {
  if (from.type == DType::f32) return read(from.floats(), to);
  EDGEDRAFT_CHECK(takes_cache_type(from.type));
  EDGEDRAFT_CHECK(to.size() == std::size_t{from.rows} * from.cols);
  if (to.empty()) return wait();
  stream_.flush();
  const View v = view(from);
  const auto row = static_cast<std::size_t>(cache_bytes(from.type, from.cols));
  Bytes stored(from.rows * row);
  const std::uint64_t before =
      v.offset * (from.type == DType::i8 ? sizeof(float) : cache_bytes(from.type, 1));
  transfers_.read(
      {.block = v.slice.block, .offset = v.slice.offset + before, .bytes = v.slice.bytes - before},
      {.bytes = row, .stride_bytes = cache_bytes(from.type, from.stride), .count = from.rows},
      stored);
  for (std::size_t r = 0; r < from.rows; ++r) {
    dequantize_row(from.type, std::span(stored).subspan(r * row, row),
                   to.subspan(r * from.cols, from.cols));
  }
}

void VulkanBackend::set_timing(Timing timing) {
  EDGEDRAFT_CHECK(timing == Timing::none || device_.timestamp_seconds() > 0.0);
  stream_.flush();
  stream_.set_timing(timing);
}

double VulkanBackend::copy_bytes_per_second(std::uint64_t bytes) {
  const Allocation from = arena_.allocate(bytes);
  const Allocation to = arena_.allocate(bytes);
  stream_.flush();
  return transfers_.copy_bytes_per_second(
      {.block = from.block(), .offset = from.offset(), .bytes = bytes},
      {.block = to.block(), .offset = to.offset(), .bytes = bytes});
}

Result<std::unique_ptr<MeasuredBackend>> open_backend(const Hooks& hooks,
                                                      const VulkanBackendOptions& options) {
  try {
    return std::unique_ptr<MeasuredBackend>(std::make_unique<VulkanBackend>(hooks, options));
  } catch (const Failure& failure) {
    return failure.error();
  } catch (const DeviceError& error) {
    return Error{Errc::io, std::string(error.what()) + "; try another device or --device cpu"};
  }
}

}  // namespace edgedraft::client::vulkan

namespace edgedraft::client {

Result<std::unique_ptr<MeasuredBackend>> make_vulkan_backend(const VulkanBackendOptions& options) {
  return vulkan::open_backend({}, options);
}

}  // namespace edgedraft::client
