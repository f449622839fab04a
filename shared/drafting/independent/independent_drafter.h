#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "shared/drafting/independent/independent_network.h"
#include "shared/drafting/network_drafter.h"

namespace edgedraft {

class IndependentDrafter final : public NetworkDrafter {
 public:
  // Requires  the bytes behind `tensors` outlive the drafter
  IndependentDrafter(Backend& backend, const DecoderConfig& config, const DecoderTensors& tensors,
                     std::uint32_t positions_max)
      : network_(backend, config, tensors, positions_max) {}
  // One of several on the same weights, which share `latest`.
  IndependentDrafter(std::shared_ptr<Decoder> decoder, SharedLogits latest)
      : NetworkDrafter(std::move(latest)), network_(std::move(decoder)) {}

 private:
  DraftNetwork& network() override { return network_; }

  IndependentNetwork network_;
};

}  // namespace edgedraft
