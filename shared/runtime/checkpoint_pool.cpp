#include "shared/runtime/checkpoint_pool.h"

#include "shared/base/check.h"

namespace edgedraft {
namespace {

std::uint64_t copy_floats(const DecoderConfig& config) {
  return RecurrentStates::copy_bytes(config) / sizeof(float);
}

}  // namespace

StateCheckpoint::~StateCheckpoint() {
  pool_.free_.push_back(place_);
}

CheckpointPool::CheckpointPool(Backend& backend, const DecoderConfig& config, std::uint32_t count)
    : config_(config), count_(count), memory_(backend.allocate(count * copy_floats(config))) {
  EDGEDRAFT_CHECK(count > 0 && config.is_recurrent());
  for (std::uint32_t place = count; place-- > 0;) free_.push_back(place);
}

std::shared_ptr<const StateCheckpoint> CheckpointPool::save(RecurrentStates& states) {
  if (free_.empty()) return nullptr;
  const std::uint32_t place = free_.back();
  auto checkpoint = std::make_shared<const StateCheckpoint>(
      *this, place, states.settled(),
      RecurrentStates::lay_out(config_, *memory_, place * copy_floats(config_)));
  free_.pop_back();
  states.copy_to(checkpoint->states());
  return checkpoint;
}

}  // namespace edgedraft
