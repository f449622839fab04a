#include "shared/drafting/independent/independent_network.h"

#include <utility>

#include "shared/base/check.h"
#include "shared/drafting/draft_network.h"

namespace edgedraft {

IndependentNetwork::IndependentNetwork(Backend& backend, const DecoderConfig& config,
                                       const DecoderTensors& tensors, std::uint32_t positions_max)
    : IndependentNetwork(std::make_shared<Decoder>(backend, config, tensors, positions_max)) {}

IndependentNetwork::IndependentNetwork(std::shared_ptr<Decoder> decoder)
    : decoder_(std::move(decoder)),
      cache_(decoder_->make_cache(decoder_->backend().drafter_cache_type())) {}

void IndependentNetwork::commit(std::span<const std::uint32_t> tokens) {
  EDGEDRAFT_CHECK(!tokens.empty());
  draft_rows_ = 0;
  // Text that was written offline may be dropped again.
  constexpr std::uint32_t kSavedEvery = 64;
  RecurrentStates* const states = cache_.recurrent();
  if (states != nullptr && states->settled() >= states->saved() + kSavedEvery) states->save();
  const std::uint32_t last_rows = decoder_->append(cache_, tokens);
  logits_ = decoder_->logits(last_rows - 1, 1);
}

void IndependentNetwork::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= cache_.length());
  draft_rows_ = 0;
  cache_.set_length(count);
}

void IndependentNetwork::expand(std::span<const GrowthNode> nodes, Leave leave) {
  const DraftRows rows = make_draft_rows(nodes, cache_.length(), draft_rows_);
  decoder_->forward(cache_, rows.tokens,
                    {.positions = rows.positions,
                     .prefix = cache_.length(),
                     .first_slot = cache_.length() + draft_rows_,
                     .masks = rows.masks});
  const auto count = static_cast<std::uint32_t>(nodes.size());
  draft_rows_ += count;
  if (leave == Leave::logits) logits_ = decoder_->logits(0, count);
}

}  // namespace edgedraft
