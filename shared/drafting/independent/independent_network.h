#pragma once

#include <memory>

#include "shared/drafting/network_drafter.h"
#include "shared/runtime/decoder.h"

namespace edgedraft {

// Any small decoder with the target's tokenizer. Needs only tokens from the target.
//
// Source    speculative sampling's independent drafter; distilled as in Mixture of Attentions
class IndependentNetwork final : public DraftNetwork {
 public:
  // Requires  the bytes of `tensors` outlive the network
  IndependentNetwork(Backend& backend, const DecoderConfig& config, const DecoderTensors& tensors,
                     std::uint32_t positions_max);
  // One of several sequences on a decoder; its logits are valid until any of them computes again.
  explicit IndependentNetwork(std::shared_ptr<Decoder> decoder);

  std::uint32_t vocabulary_count() const override { return decoder_->config().vocabulary_count; }
  std::span<const std::uint32_t> draft_tokens() const override {
    return decoder_->config().draft_tokens;
  }
  std::uint32_t committed_count() const override { return cache_.length(); }
  std::uint32_t position_count_max() const override { return decoder_->positions_max(); }
  void commit(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  void expand(std::span<const GrowthNode> nodes, Leave leave = Leave::logits) override;
  Matrix logits() const override { return logits_; }
  Backend& backend() override { return decoder_->backend(); }

 private:
  std::shared_ptr<Decoder> decoder_;
  KvCache cache_;
  std::uint32_t draft_rows_ = 0;
  Matrix logits_;
};

using IndependentDrafter = TokenDrafter<IndependentNetwork>;

}  // namespace edgedraft
