#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "client/generation/requests.h"

namespace edgedraft {

// An answer to a prompt with private text, of which the server reads what stands before that: the
// drafter then writes from the target's activations of it, as in appendix A.6 of *Mixture of
// Attentions*, where the server is gone.
class Opening : GenerationContext {
 public:
  // Requires  the references outlive it
  Opening(const GenerationContext& context, Requests& requests)
      : GenerationContext(context), requests_(requests) {}

  // Whether the drafter lacks activations of the first tokens that the server could give it.
  bool is_wanted(std::uint32_t open_count) const;
  // `rest` of the prompt follows in the end.
  void begin(std::span<const std::uint32_t> rest) { rest_.assign(rest.begin(), rest.end()); }
  // Asks for the activations. Returns until when to wait for them; nothing: no longer.
  std::optional<Instant> work();
  // Returns false if there will be no more. Errors    those of the link
  Result<bool> take(const Result<ClientEvent>& told);
  // Goes on with whatever activations there are.
  void end() {
    conversation_.append(rest_, Provenance::private_);
    rest_.clear();
  }

 private:
  Requests& requests_;
  std::vector<std::uint32_t> rest_;
};

}  // namespace edgedraft
