#include "client/generation/offline/device_writing.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "client/generation/offline/lasting_outage.h"
#include "shared/speculative/sampling.h"

namespace edgedraft::client {
namespace {

constexpr const char* kNeedsTarget =
    "this drafter cannot answer alone (it needs the target's activations): give "
    "--offline-bundle FILE";

constexpr const char* kCannotWrite =
    "the drafter cannot write without the server: its kind never can, or the conversation exceeds "
    "its context";

}  // namespace

void DrafterConfidence::observe(std::span<const float> logits, std::uint32_t token) {
  const float best = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - best));
  logs_[count_++ % kTokens] = static_cast<double>(logits[token] - best) - std::log(sum);
}

bool DrafterConfidence::unsure() const {
  if (count_ < kTokens) return false;
  const double mean = std::accumulate(std::begin(logs_), std::end(logs_), 0.0) / kTokens;
  return !(std::exp(mean) >= floor_);
}

void DeviceWriting::begin() {
  agree();
  device_writes_ = has_writer() && terms_.route != WritingSide::server;
  confidence_ = DrafterConfidence(terms_.handover_below);
}

void DeviceWriting::agree() {
  check_deadline_.reset();
  outage_began_.reset();
  nothing_to_write_ = false;
}

void DeviceWriting::begin_outage() {
  if (!outage_began_) {
    outage_began_ = parts_.now();
    outage_tokens_ = 0;
  }
  if (!terms_.writes_offline && terms_.wait_max != Duration::max() && !check_deadline_) {
    check_deadline_ = parts_.now() + terms_.wait_max;
  }
}

std::optional<std::uint32_t> DeviceWriting::choose() {
  std::span<const float> logits;
  if (parts_.writer != nullptr) {
    logits = parts_.writer->next_logits(conversation_.tokens());
  } else if (parts_.drafter != nullptr && !is_blind()) {
    logits = parts_.drafter->next_logits();
  }
  if (logits.empty()) return std::nullopt;
  const bool constrained = terms_.filter && terms_.filter->changes_logits();
  const bool lasts = outage_tokens_++ >= kLastingOutageTokens;
  std::vector<float> filtered;
  if (constrained || lasts) filtered.assign(logits.begin(), logits.end());
  if (constrained) terms_.filter->apply(conversation_.answer(), filtered);
  // Repetition stays allowed if a grammar may require it, or if a separate model writes by itself.
  const bool repeats =
      (constrained && terms_.filter->grammar()) || (device_writes_ && parts_.writer != nullptr);
  if (lasts && !repeats) {
    avoid_circles(conversation_.tokens(), conversation_.answer_first(), filtered);
  }
  const std::uint32_t token =
      Sampler(terms_.sampling).choose(filtered.empty() ? logits : filtered, conversation_.count());
  if (device_writes_ && terms_.route == WritingSide::automatic) {
    confidence_.observe(filtered.empty() ? logits : filtered, token);
    device_writes_ = !confidence_.unsure();
  }
  return token;
}

std::uint32_t DeviceWriting::take_room() {
  // After the drafter's context is full, the server can continue; the drafter alone cannot.
  std::uint32_t room = parts_.writer != nullptr ? 0 : options_.context_count;
  if (device_writes_ && terms_.route == WritingSide::automatic && room > 0 &&
      conversation_.count() >= room) {
    device_writes_ = false;
    room = 0;
  }
  return room;
}

// Called if there is no drafter, its context is full, it has no activations yet, or it proposes
// tokens without a distribution.
Result<bool> DeviceWriting::take_nothing() {
  if (device_writes_ && terms_.route == WritingSide::automatic) {
    device_writes_ = false;  // hands over
  } else if (outage_tokens_ > 0 && !is_blind()) {
    return true;
  } else if (device_writes_) {
    if (is_blind()) return Error{Errc::unsupported, kNeedsTarget};
    if (options_.context_count > 0 && conversation_.count() >= options_.context_count) {
      return Error{Errc::context_full, "the conversation has " +
                                           std::to_string(conversation_.count()) +
                                           " tokens, and the device's context has only " +
                                           std::to_string(options_.context_count)};
    }
    return Error{Errc::unsupported, std::string(kCannotWrite) +
                                        "; let the server answer, or give another drafter "
                                        "(--bundle, --offline-bundle) or a longer context (--ctx)"};
  } else {
    nothing_to_write_ = true;
    await_check();
  }
  return false;
}

Error DeviceWriting::unanswered(Error error) const {
  if (nothing_to_write_ && has_writer()) {
    error.message += std::string("; ") + (is_blind() ? kNeedsTarget : kCannotWrite);
  }
  return error;
}

bool DeviceWriting::bears_outages() const {
  return has_writer() || !terms_.writes_offline || options_.resync_wait > Duration::zero();
}

void DeviceWriting::keep_if_due() {
  if (conversation_.settled_count() == conversation_.count()) return;
  if (keep_time() == Instant::max() || parts_.now() < keep_time()) return;
  conversation_.settle();
  parts_.observer.on_kept(conversation_.answer_count());
}

}  // namespace edgedraft::client
