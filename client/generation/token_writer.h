#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "client/generation/generation_context.h"
#include "client/generation/telemetry/cycle_notes.h"

namespace edgedraft::client {

// Writes an answer's tokens to its conversation and observer, and finds where it ends.
class TokenWriter : GenerationContext {
 public:
  // Requires  the references outlive it
  TokenWriter(const GenerationContext& context, const CycleNotes& notes)
      : GenerationContext(context), notes_(notes) {}

  void begin() { has_begun_ = false, end_.reset(); }
  const std::optional<GenerationEnd>& end() const { return end_; }
  void end_as(GenerationEnd end) { end_ = end; }
  void go_on() { end_.reset(); }

  void write(std::uint32_t token, Provenance provenance);
  void end_where_due(wire::Ending ending);
  // Ends text written without the server, also at these context limits in tokens; 0: no limit.
  void end_where_written(std::initializer_list<std::uint32_t> context_counts);
  // Reports log probabilities of tokens that the answer has or is about to receive.
  void tell_logprobs(const wire::Verdict& verdict);

 private:
  const CycleNotes& notes_;
  bool has_begun_ = false;  // it had its first token
  std::optional<GenerationEnd> end_;
};

}  // namespace edgedraft::client
