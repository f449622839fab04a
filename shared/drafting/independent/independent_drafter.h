#pragma once

#include "shared/drafting/independent/independent_network.h"
#include "shared/drafting/network_drafter.h"

namespace edgedraft {

class IndependentDrafter final : public NetworkDrafter {
 public:
  // Requires  the bytes behind `tensors` outlive the drafter
  IndependentDrafter(Backend& backend, const DecoderConfig& config, const DecoderTensors& tensors,
                     std::uint32_t positions_max)
      : network_(backend, config, tensors, positions_max) {}

 private:
  DraftNetwork& network() override { return network_; }

  IndependentNetwork network_;
};

}  // namespace edgedraft
