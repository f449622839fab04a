#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "shared/runtime/backend.h"

namespace edgedraft::testing {

enum class Operation : std::uint8_t {
  allocate,
  upload,
  upload_matrix,
  write,
  wait,
  read,
  embed,
  rms_norm,
  matmul,
  matmuls,
  rope,
  store,
  attention,
  gate,
  compact,
  top_k,
  argmax,
  gather_layers,
  group_attention,
  group_mean,
  convolve,
  delta_rule,
};

inline constexpr std::array kOperations = {
    Operation::allocate,        Operation::upload,     Operation::upload_matrix,
    Operation::write,           Operation::wait,       Operation::read,
    Operation::embed,           Operation::rms_norm,   Operation::matmul,
    Operation::matmuls,         Operation::rope,       Operation::store,
    Operation::attention,       Operation::gate,       Operation::compact,
    Operation::top_k,           Operation::argmax,     Operation::gather_layers,
    Operation::group_attention, Operation::group_mean, Operation::convolve,
    Operation::delta_rule};

inline std::string name_of(Operation operation) {
  constexpr const char* kNames[] = {
      "allocate",        "upload",     "upload_matrix", "write",     "wait",   "read",
      "embed",           "rms_norm",   "matmul",        "matmuls",   "rope",   "store",
      "attention",       "gate",       "compact",       "top_k",     "argmax", "gather_layers",
      "group_attention", "group_mean", "convolve",      "delta_rule"};
  return kNames[static_cast<std::size_t>(operation)];
}

// The n-th operation of a kind and all later ones fail, as on a lost device. A fault that does not
// last fails once, as if out of memory.
struct DeviceFault {
  Operation operation;
  std::uint32_t n;  // 1, 2, ...
  bool fired = false;
  bool lasts = true;
  std::uint32_t count = 0;  // operations of that kind so far
};

class FailingBackend final : public Backend {
 public:
  // Requires  the fault outlives the backend
  FailingBackend(std::unique_ptr<Backend> inner, DeviceFault& fault)
      : inner_(std::move(inner)), fault_(fault) {}

  std::uint64_t allocated_floats() const { return allocated_floats_; }

  std::string_view name() const override { return "failing"; }
  bool takes_pages() const override { return inner_->takes_pages(); }
  std::uint32_t head_dim_max() const override { return inner_->head_dim_max(); }
  bool takes_cache_type(DType type) const override { return inner_->takes_cache_type(type); }
  DType drafter_cache_type() const override { return inner_->drafter_cache_type(); }
  std::unique_ptr<Buffer> allocate(std::uint64_t floats) override {
    count(Operation::allocate);
    allocated_floats_ += floats;
    return inner_->allocate(floats);
  }
  std::unique_ptr<Buffer> upload(ByteView bytes) override {
    count(Operation::upload);
    return inner_->upload(bytes);
  }
  std::unique_ptr<Buffer> upload_table(const MatrixBytes& table) override {
    count(Operation::upload);
    return inner_->upload_table(table);
  }
  std::unique_ptr<Buffer> upload_matrix(const MatrixBytes& matrix) override {
    count(Operation::upload_matrix);
    return inner_->upload_matrix(matrix);
  }
  void write(const Matrix& to, std::span<const float> from) override {
    count(Operation::write);
    inner_->write(to, from);
  }
  void wait() override {
    count(Operation::wait);
    inner_->wait();
  }
  void read(const Matrix& from, std::span<float> to) override {
    count(Operation::read);
    inner_->read(from, to);
  }
  void read_cache(const CacheRows& from, std::span<float> to) override {
    count(Operation::read);
    inner_->read_cache(from, to);
  }
  void embed(const EmbedOp& op) override {
    count(Operation::embed);
    inner_->embed(op);
  }
  void rms_norm(const RmsNormOp& op) override {
    count(Operation::rms_norm);
    inner_->rms_norm(op);
  }
  void matmul(const MatmulOp& op) override {
    count(Operation::matmul);
    inner_->matmul(op);
  }
  void matmuls(std::span<const MatmulOp> ops) override {
    count(Operation::matmuls);
    inner_->matmuls(ops);
  }
  void rope(const RopeOp& op) override {
    count(Operation::rope);
    inner_->rope(op);
  }
  void store(const StoreOp& op) override {
    count(Operation::store);
    inner_->store(op);
  }
  void attention(const AttentionOp& op) override {
    count(Operation::attention);
    inner_->attention(op);
  }
  void gate(const GateOp& op) override {
    count(Operation::gate);
    inner_->gate(op);
  }
  void compact(const CompactOp& op) override {
    count(Operation::compact);
    inner_->compact(op);
  }
  void top_k(const TopKOp& op) override {
    count(Operation::top_k);
    inner_->top_k(op);
  }
  void argmax(const ArgmaxOp& op) override {
    count(Operation::argmax);
    inner_->argmax(op);
  }
  void gather_layers(const GatherLayersOp& op) override {
    count(Operation::gather_layers);
    inner_->gather_layers(op);
  }
  void group_attention(const GroupAttentionOp& op) override {
    count(Operation::group_attention);
    inner_->group_attention(op);
  }
  void group_mean(const GroupMeanOp& op) override {
    count(Operation::group_mean);
    inner_->group_mean(op);
  }
  void scale(const ScaleOp& op) override { inner_->scale(op); }
  void soft_cap(const SoftCapOp& op) override { inner_->soft_cap(op); }
  void convolve(const ConvolutionOp& op) override {
    count(Operation::convolve);
    inner_->convolve(op);
  }
  void delta_rule(const DeltaRuleOp& op) override {
    count(Operation::delta_rule);
    inner_->delta_rule(op);
  }
  void route(const RouteOp& op) override { inner_->route(op); }
  void expert_matmul(const ExpertMatmulOp& op) override { inner_->expert_matmul(op); }
  void mix(const MixOp& op) override { inner_->mix(op); }

 private:
  void count(Operation operation) {
    const bool strikes = operation == fault_.operation && ++fault_.count == fault_.n;
    if (strikes) fault_.fired = true;
    if (strikes || (fault_.fired && fault_.lasts)) {
      throw DeviceError("device lost in " + name_of(fault_.operation));
    }
  }

  std::unique_ptr<Backend> inner_;
  DeviceFault& fault_;
  std::uint64_t allocated_floats_ = 0;
};

}  // namespace edgedraft::testing
