#include "client/control/draft_control.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace edgedraft {
namespace {

// Cycles before acceptance and times are trusted.
constexpr std::uint32_t kCyclesToLearn = 3;
// A running mean forgets at this rate once it has as many samples.
constexpr double kMemory = 20;
// How much better the other way must be. Going back to drafts costs a catch-up of activations.
constexpr double kStreamMargin = 1.08;
constexpr double kDraftMargin = 1.15;
// The same before the first tree, by what the server tells: a draft's rows cost other sessions
// time.
constexpr double kFirstDraftMargin = 1.05;
// And in a crowd, at any time.
constexpr double kCrowdMargin = 1.5;
// A pass of one row is not cheaper by more than this than one of a whole tree.
constexpr double kWidePassFactor = 8;
constexpr std::uint32_t kProbeTokens = 16;
constexpr std::uint32_t kLookTokens = 32;
// What was told weighs as much as so many samples, until as many contradict it by this factor.
constexpr double kToldWeight = 6;
constexpr double kToldSamples = 6;
constexpr double kContradiction = 2;
// Streamed prompts in a row after which nobody knows how long a tree takes: the last ones may have
// been slow by accident, and while it streams there are no others.
constexpr std::uint32_t kStreamedPrompts = 8;

template <class... Values>
std::string text(const char* format, Values... values) {
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

}  // namespace

void DraftControl::Mean::add(double sample, double weight) {
  count_ = std::min(count_ + weight, kMemory);
  value_ += (sample - value_) * std::min(1.0, weight / count_);
}

void DraftControl::Estimate::expect(double told) {
  told_ = told;
  measured_.age();
}

double DraftControl::Estimate::value() const {
  const double measured = measured_.value();
  if (told_ <= 0) return measured;
  const bool contradicted = told_ > kContradiction * measured || measured > kContradiction * told_;
  if (contradicted && measured_.count() >= kToldSamples) return measured;
  return (kToldWeight * told_ + measured_.count() * measured) / (kToldWeight + measured_.count());
}

void DraftControl::observe_prompt(std::uint32_t rows, Duration link, Duration server) {
  link_.add(seconds(link));
  step_cold_ = true;
  streamed_prompts_ = streaming_ ? streamed_prompts_ + 1 : 0;
  if (streamed_prompts_ == kStreamedPrompts) {
    streamed_prompts_ = 0;
    step_ = {};
  }
  // A long prompt takes many passes and tells nothing of one.
  if (rows <= 256) prompt_server_.add(seconds(server));
}

void DraftControl::observe_cycle(const Cycle& cycle) {
  link_.add(seconds(cycle.link));
  const std::size_t size = draft_size(cycle.rows);
  server_[size].add(seconds(cycle.server));
  if (cycle.levels == 0) return;
  ++cycles_;
  tokens_[size].add(cycle.tokens);
  const bool cold = std::exchange(step_cold_, false);
  if (cycle.drafting && !cold) step_.add(seconds(*cycle.drafting) / cycle.levels);
}

void DraftControl::expect_drafts(std::span<const Expected> by_size) {
  for (std::size_t size = 0; size < std::min(by_size.size(), kDraftSizes); ++size) {
    server_[size].expect(seconds(by_size[size].server));
    tokens_[size].expect(by_size[size].tokens);
  }
  outlook_ = outlook_ || by_size.size() > 1;
}

void DraftControl::expect_stream(Duration a_token) {
  told_stream_ = seconds(a_token);
}

void DraftControl::observe_stream_begin(Duration link) {
  link_.add(seconds(link));
}

void DraftControl::observe_streamed(std::uint32_t tokens, Duration gap) {
  const double taken = seconds(gap) / tokens;
  streamed_.add(taken, tokens);
  if (told_stream_ <= 0) return;
  if (!stream_factor_.known()) stream_factor_.add(1.0, kToldWeight);
  stream_factor_.add(taken / told_stream_, tokens);
}

// While it drafts the server's word is newer than what was measured, but held against that.
double DraftControl::streamed_seconds() const {
  if (told_stream_ <= 0 || (streaming_ && streamed_.known())) return streamed_.value();
  return told_stream_ * (stream_factor_.known() ? stream_factor_.value() : 1.0);
}

// What is known of the nearest size; fewer rows bring fewer tokens.
double DraftControl::drafted_tokens(std::size_t size) const {
  for (std::size_t distance = 0; distance < kDraftSizes; ++distance) {
    if (size + distance < kDraftSizes && tokens_[size + distance].known()) {
      const double tokens = tokens_[size + distance].value();
      return 1.0 +
             (tokens - 1.0) * static_cast<double>(size) / static_cast<double>(size + distance);
    }
    if (distance <= size && tokens_[size - distance].known()) {
      return tokens_[size - distance].value();
    }
  }
  return 1.0;
}

double DraftControl::server_seconds(std::size_t size) const {
  for (std::size_t distance = 0; distance < kDraftSizes; ++distance) {
    if (size + distance < kDraftSizes && server_[size + distance].known()) {
      return server_[size + distance].value();
    }
    if (distance <= size && server_[size - distance].known()) {
      return server_[size - distance].value();
    }
  }
  return 0.0;
}

double DraftControl::drafted_rate(const TreeShape& shape, double tokens) const {
  return tokens / std::max(1e-6, step_.value() * shape.depth + link_.value() +
                                     server_seconds(draft_size(shape.nodes + 1)));
}

DraftControl::Decision DraftControl::decide(const TreeShape& shape) {
  if (shape.nodes == 0) return stream("the server's row budget leaves no room for drafts");
  const std::size_t size = draft_size(shape.nodes + 1);
  const double streamed_pass = streamed_seconds();
  const bool informed = outlook_ && streamed_pass > 0;
  if (!informed && cycles_ < kCyclesToLearn) {
    // Even if every draft were right?
    const double best = drafted_rate(shape, shape.depth + 1.0);
    const double pass = streamed_pass > 0 ? streamed_pass : prompt_server_.value();
    const double streamed = pass > 0 ? 1.0 / std::max(1e-6, pass) : 0.0;
    if (best < streamed) {
      return stream(
          text("the server's stream is faster: at most %.0f tokens/s could be drafted, at least "
               "%.0f streamed",
               best, streamed));
    }
    return draft("not measured yet");
  }

  const double tokens = std::min(drafted_tokens(size), shape.copied_depth() + 1.0);
  const double drafted = drafted_rate(shape, tokens);
  const double pass = std::max(1e-6, server_seconds(size));
  const std::string how = text("%.0f tokens/s (%.1f a cycle, link %.1f ms, pass %.1f ms)", drafted,
                               tokens, 1e3 * link_.value(), 1e3 * pass);
  if (streamed_pass <= 0) {
    if (1.0 / pass > kStreamMargin * drafted) {
      return stream(
          text("the server's stream is faster: at least %.0f tokens/s, drafted ", 1.0 / pass) +
          how);
    }
    if (kWidePassFactor / pass > drafted) return probe("drafted " + how + ", streaming is tried");
    return draft("drafted " + how + ", no stream can be faster");
  }
  const double streamed = 1.0 / std::max(1e-6, streamed_pass);
  const double margin = crowd_                     ? kCrowdMargin
                        : streaming_               ? kDraftMargin
                        : informed && cycles_ == 0 ? kFirstDraftMargin
                                                   : 1.0 / kStreamMargin;
  const bool streams = drafted <= margin * streamed;
  std::string why = text("streamed %.0f tokens/s, drafted ", streamed) + how;
  return streams ? stream("the server's stream is faster: " + why) : draft(std::move(why));
}

DraftControl::Decision DraftControl::stream(std::string why) {
  changed_ = !streaming_;
  streaming_ = true;
  why_ = std::move(why);
  return {.stream = true, .look_after = kLookTokens};
}

DraftControl::Decision DraftControl::probe(std::string why) {
  // What comes behind it is no return to drafting, as nothing was decided.
  changed_ = false;
  why_ = std::move(why);
  return {.stream = true, .look_after = kProbeTokens, .ends_there = true};
}

DraftControl::Decision DraftControl::draft(std::string why) {
  changed_ = streaming_;
  streaming_ = false;
  why_ = std::move(why);
  return {.stream = false};
}

}  // namespace edgedraft
