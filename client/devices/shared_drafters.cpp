#include "client/devices/shared_drafters.h"

#include <utility>

#include "client/devices/fallback_drafter.h"

namespace edgedraft::client {

SharedDrafters::SharedDrafters(Options options) : options_(std::move(options)) {
  try {
    first_ = options_.first();
  } catch (const DeviceError& error) {
    if (!options_.second) throw;
    note_failure(error.what());
    second_ = options_.second();
  }
}

std::unique_ptr<Drafter> SharedDrafters::make_drafter() {
  if (!first_ || !first_->weights) return make_on_second();
  const auto make_on_first = [this] { return first_->weights->make_drafter(); };
  if (!options_.second) return make_on_first();
  return std::make_unique<FallbackDrafter>(
      FallbackDrafter::Options{.first = make_on_first,
                               .second = [this] { return make_on_second(); },
                               .on_failure = [this](const std::string& why) { note_failure(why); },
                               .positions_max = options_.positions_max,
                               .meter = first_->backend->meter()});
}

std::unique_ptr<Drafter> SharedDrafters::make_on_second() {
  // Drafters still on the first device keep its weights until they fail, too.
  if (first_) first_->weights.reset();
  if (!second_) second_ = options_.second();
  return second_->weights->make_drafter();
}

void SharedDrafters::note_failure(const std::string& why) {
  if (std::exchange(failed_, true)) return;
  if (options_.on_failure) options_.on_failure(why);
}

}  // namespace edgedraft::client
