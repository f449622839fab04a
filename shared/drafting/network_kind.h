#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/network_drafter.h"
#include "shared/model/gguf.h"
#include "shared/model/safetensors.h"

// DrafterKind members and model for a drafter that is a network.
namespace edgedraft {

// Weights whose drafters are made from them and from `shared`, a value common to all.
template <class Made, class Weights, class Shared>
class NetworkWeights final : public DrafterWeights {
 public:
  NetworkWeights(std::shared_ptr<Weights> weights, std::uint64_t drafter_bytes, Shared shared)
      : weights_(std::move(weights)), drafter_bytes_(drafter_bytes), shared_(std::move(shared)) {}

  std::unique_ptr<Drafter> make_drafter() override {
    return std::make_unique<Made>(weights_, shared_);
  }
  std::uint64_t drafter_bytes() const override { return drafter_bytes_; }

 private:
  std::shared_ptr<Weights> weights_;
  std::uint64_t drafter_bytes_;
  Shared shared_;
};

template <class Made, class Weights, class Shared = SharedLogits>
std::unique_ptr<DrafterWeights> share_weights(std::shared_ptr<Weights> weights,
                                              std::uint64_t drafter_bytes,
                                              Shared shared = make_shared_logits()) {
  return std::make_unique<NetworkWeights<Made, Weights, Shared>>(std::move(weights), drafter_bytes,
                                                                 std::move(shared));
}

// `Network` has the type Model (a config and tensors) and these static functions:
//   facts(model)                         DrafterFacts
//   load(model, backend, positions_max)  DrafterWeights
//   make_tap(model, backend)             Tap, or null
template <class Network>
class NetworkModel final : public DrafterModel {
 public:
  explicit NetworkModel(typename Network::Model model)
      : model_(std::move(model)), facts_(Network::facts(model_)) {}

  const DrafterFacts& facts() const override { return facts_; }
  std::unique_ptr<DrafterWeights> load(Backend& backend,
                                       std::uint32_t positions_max) const override {
    return Network::load(model_, backend, positions_max);
  }
  std::unique_ptr<Tap> make_tap(Backend& backend) const override {
    return Network::make_tap(model_, backend);
  }

 private:
  typename Network::Model model_;
  DrafterFacts facts_;
};

template <class Network, Result<typename Network::Model> (*read)(const GgufFile&)>
Result<std::unique_ptr<DrafterModel>> read_network(const GgufFile& file) {
  auto model = read(file);
  if (!model) return model.error();
  return std::make_unique<NetworkModel<Network>>(std::move(*model));
}

template <const std::string_view& kArchitecture>
bool has_architecture(const GgufFile& file) {
  const auto architecture = file.architecture();
  return architecture && *architecture == kArchitecture;
}

template <bool (*is_checkpoint)(const SafetensorsModel&)>
bool is_checkpoint_folder(const std::filesystem::path& drafter) {
  if (!std::filesystem::is_directory(drafter)) return false;
  const auto checkpoint = SafetensorsModel::open(drafter);
  return checkpoint && is_checkpoint(*checkpoint);
}

// Whether copy_vocabulary() (bundle_parts.h) copies the tensor.
inline bool is_vocabulary(std::string_view tensor) {
  return tensor == "token_embd.weight" || tensor == "output.weight";
}

}  // namespace edgedraft
