#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>

#include "client/vulkan/device.h"
#include "client/vulkan/memory.h"
#include "client/vulkan/pipelines.h"
#include "client/vulkan/stream.h"
#include "client/vulkan/transfers.h"
#include "client/vulkan/vulkan_backend.h"
#include "shaders/params.h"

namespace edgedraft::client::vulkan {

// Memory of a VulkanBackend. upload_matrix stores a quantised matrix as integers followed by
// scales, one float16 per block. Integers take one byte each for q8_0 and are packed as in the
// blocks for q4_0.
class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(Allocation memory, std::uint64_t bytes)
      : memory_(std::move(memory)), bytes_(bytes) {}
  DeviceBuffer(Allocation memory, std::uint64_t bytes, std::uint64_t scales_at)
      : memory_(std::move(memory)), bytes_(bytes), scales_at_(scales_at) {}

  const Allocation& memory() const { return memory_; }
  std::uint64_t bytes() const { return bytes_; }
  // Offset of the scales in bytes; empty if the layout is the file's.
  std::optional<std::uint64_t> scales_at() const { return scales_at_; }

 private:
  Allocation memory_;
  std::uint64_t bytes_;
  std::optional<std::uint64_t> scales_at_;
};

// Division of a matmul (shaders/product.glsl), fixed per device: the order of its sums depends on
// `lanes`.
struct MatmulTile {
  std::uint32_t workgroup;
  std::uint32_t lanes;        // lanes that share the inputs of an output
  std::uint32_t outputs_max;  // per lane
  // With fewer workgroups than this, lanes compute fewer outputs each, which changes no sum.
  std::uint32_t workgroups_wanted;
};

// Returns the workgroups needed for that many invocations.
constexpr std::uint64_t groups_for(std::uint64_t invocations, std::uint32_t workgroup) {
  return (invocations + workgroup - 1) / workgroup;
}

// Returns the shaders' constant for a type.
std::uint32_t type_constant(DType type);

class VulkanBackend final : public MeasuredBackend {
 public:
  // Throws Failure or DeviceError, as Device.
  VulkanBackend(const Hooks& hooks, const VulkanBackendOptions& options);
  ~VulkanBackend() override;

  std::string_view name() const override { return "vulkan"; }
  bool takes_pages() const override { return false; }
  bool takes_cache_type(DType type) const override {
    return type == DType::f32 || type == DType::i8 ||
           (type == DType::f16 && device_.features().narrow_storage);
  }
  DType drafter_cache_type() const override { return kv_type_; }
  std::unique_ptr<Buffer> allocate(std::uint64_t floats) override;
  std::unique_ptr<Buffer> upload(ByteView bytes) override;
  std::unique_ptr<Buffer> upload_table(const MatrixBytes& table) override;
  std::unique_ptr<Buffer> upload_matrix(const MatrixBytes& matrix) override;
  void write(const Matrix& to, std::span<const float> from) override;
  void wait() override;
  void read(const Matrix& from, std::span<float> to) override;
  void read_cache(const CacheRows& from, std::span<float> to) override;
  void embed(const EmbedOp& op) override;
  void rms_norm(const RmsNormOp& op) override;
  void matmul(const MatmulOp& op) override;
  void matmuls(std::span<const MatmulOp> ops) override;
  void rope(const RopeOp& op) override;
  void store(const StoreOp& op) override;
  void attention(const AttentionOp& op) override;
  void group_attention(const GroupAttentionOp& op) override;
  void gate(const GateOp& op) override;
  void compact(const CompactOp& op) override;
  void gather_layers(const GatherLayersOp& op) override;
  void group_mean(const GroupMeanOp& op) override;
  void top_k(const TopKOp& op) override;
  void argmax(const ArgmaxOp& op) override;
  void scale(const ScaleOp& op) override;
  void soft_cap(const SoftCapOp& op) override;
  void convolve(const ConvolutionOp& op) override;
  void delta_rule(const DeltaRuleOp& op) override;
  void route(const RouteOp& op) override;
  void expert_matmul(const ExpertMatmulOp& op) override;
  void mix(const MixOp& op) override;

  const VulkanDevice& device() const override { return device_.description(); }
  const VulkanFeatures& features() const override { return device_.features(); }
  void set_timing(Timing timing) override;
  std::vector<OperationTime> take_times() override { return stream_.take_times(); }
  Counts counts() const override { return stream_.counts(); }
  double copy_bytes_per_second(std::uint64_t bytes) override;

 private:
  // A matrix as shaders see it: a binding, and the matrix's position in it, in elements.
  struct View {
    Slice slice;
    std::uint32_t offset;
    std::uint32_t stride;
  };
  struct Bound {
    Slice slice;
    enum Access : std::uint8_t { read, written } access = read;
  };
  struct Groups {
    std::uint64_t x;
    std::uint64_t y = 1;
  };
  // Rows of a stored matrix that fit one binding.
  struct WeightPart {
    std::uint32_t first;
    std::uint32_t count;
    Slice slice;
    std::uint32_t offset_bytes;
    Slice scales;  // equals slice if there are none
    std::uint32_t scale_offset;
  };

  static const DeviceBuffer& device_buffer(const Buffer* buffer);
  // Aligned slice that covers the bytes; `added` returns the bytes before `offset`.
  Slice slice(const DeviceBuffer& buffer, std::uint64_t offset, std::uint64_t bytes,
              std::uint64_t& added) const;
  View view(const Matrix& m) const { return view(CacheRows(m)); }
  View view(const CacheRows& m) const;
  View view(const CacheView& cache) const;
  View view(const Weight& w) const;
  std::vector<WeightPart> parts(const Weight& w) const;
  void dispatch(const PipelineKey& key, const Groups& groups, ByteView push,
                std::initializer_list<Bound> bound);
  template <class Params>
  void dispatch(const PipelineKey& key, const Groups& groups, const Params& params,
                std::initializer_list<Bound> bound) {
    dispatch(key, groups, ByteView(std::as_bytes(std::span(&params, 1))), bound);
  }
  void multiply(const MatmulOp& op);
  // Key of a matmul of activations as they are, for tiles of `rows`.
  static PipelineKey product_key(const Matrix& x, const View& at, const Weight& weight,
                                 std::uint32_t rows);
  void dispatch_product(PipelineKey key, const MatmulOp& op, const View& x);
  View quantize(const Matrix& x);
  static shaders::AttentionParams attention_params(const View& q, const View& k, const View& v,
                                                   const View& y, const HeadShape& heads,
                                                   float scale);
  static PipelineKey attention_key(shaders::Shader shader, const HeadShape& shape,
                                   std::uint32_t heads, std::uint64_t rows,
                                   const shaders::AttentionParams& at);
  Command copy_of(Command::Kind kind, const Matrix& m, std::uint64_t host_offset) const;
  // Copies bytes to the results of the list. Returns their offset there.
  std::uint64_t copy_out(const Slice& from);
  // Returns the first `bytes` of scratch memory as a binding.
  Slice scratch(std::uint64_t bytes);
  Slice run_top_k(const TopKOp& op);
  // Puts a sequence's rows into the call buffer for the next commands. Returns their place.
  std::uint32_t put(const RecurrentRows& rows);

  Device device_;
  DType kv_type_;
  MatmulTile matmul_tile_;
  Arena arena_;
  Pipelines pipelines_;
  Stream stream_;
  Transfers transfers_;
  Allocation scratch_;
};

// make_vulkan_backend with test hooks.
Result<std::unique_ptr<MeasuredBackend>> open_backend(const Hooks& hooks,
                                                      const VulkanBackendOptions& options);

}  // namespace edgedraft::client::vulkan
