#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "client/generation/online/requests.h"

namespace edgedraft::client {

// Start of the answer to a prompt with private text. The server reads the part before that text;
// the drafter then writes alone, from the target's activations of that part. Appendix A.6 of
// *Mixture of Attentions* does the same after a lost connection.
class Opening : GenerationContext {
 public:
  // Requires  the references outlive it
  Opening(const GenerationContext& context, Requests& requests)
      : GenerationContext(context), requests_(requests) {}

  // True if the server could send activations of the first tokens that the drafter lacks.
  bool is_wanted(std::uint32_t open_count) const;
  // `rest` is the remainder of the prompt, appended by end().
  void begin(std::span<const std::uint32_t> rest) { rest_.assign(rest.begin(), rest.end()); }
  // Requests the activations. Returns the deadline to wait for them; empty: stop waiting.
  std::optional<Instant> work();
  // Returns false if no more will come. Errors    those of the link
  Result<bool> take(const Result<ClientEvent>& told);
  // Continues with the activations received so far.
  void end() {
    conversation_.append(rest_, Provenance::private_);
    rest_.clear();
  }

 private:
  Requests& requests_;
  std::vector<std::uint32_t> rest_;
};

}  // namespace edgedraft::client
