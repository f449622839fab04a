#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shared/protocol/target_link.h"

namespace edgedraft::lab {

// A link that ends permanently, without notice to the server, after the first answer's first
// `tokens` tokens. Cutting the network instead would stop at an arbitrary token nearby. Later
// tokens of a verdict are dropped with their activations. The prompt's activations still arrive,
// since they belong to its verdict.
class CutLink final : public TargetLink {
 public:
  // `why` is the reported reason.
  // Requires  tokens > 0
  CutLink(std::unique_ptr<TargetLink> link, std::uint32_t tokens, std::string why);

  void start_connecting() override { link_->start_connecting(); }
  Result<void> send(TargetRequest request) override;
  Result<ClientEvent> wait_event(Instant deadline) override;
  LinkState state() const override;
  LinkStats stats() const override { return link_->stats(); }
  bool backed_up() const override { return link_->backed_up(); }
  void try_again() override { link_->try_again(); }
  void close() override { link_->close(); }

 private:
  void note_request(const SafePrefix& text, std::uint32_t activations_from);
  void take(const VerdictReceived& event);

  std::unique_ptr<TargetLink> link_;
  std::uint32_t tokens_;
  std::string why_;
  std::uint32_t prompt_count_ = 0;  // 0: no request yet
  std::uint32_t brought_count_ = 0;
  std::uint32_t activation_cols_ = 0;
  std::uint32_t activations_from_ = 0;  // first position whose activations the last prompt
                                        // requested
  bool rows_pending_ = false;
};

}  // namespace edgedraft::lab
