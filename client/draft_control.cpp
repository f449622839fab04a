#include "client/draft_control.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

namespace edgedraft {
namespace {

// Cycles before acceptance and times are trusted.
constexpr std::uint32_t kCyclesToLearn = 3;
// A running mean forgets at this rate once it has as many samples.
constexpr double kMemory = 20;
// How much better the other way must be. Going back to drafts costs a catch-up of activations.
constexpr double kStreamMargin = 1.03;
constexpr double kDraftMargin = 1.15;
// A pass of one row is not cheaper by more than this than one of a whole tree.
constexpr double kWidePassFactor = 8;
constexpr std::uint32_t kProbeTokens = 16;
constexpr std::uint32_t kLookTokens = 32;

std::size_t size_of(std::uint32_t rows) {
  return static_cast<std::size_t>(std::bit_width(std::clamp(rows, 1u, 256u) - 1));
}

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

void DraftControl::observe_prompt(std::uint32_t rows, Duration link, Duration server) {
  link_.add(seconds(link));
  // A long prompt takes many passes and tells nothing of one.
  if (rows <= 256) prompt_server_.add(seconds(server));
}

void DraftControl::observe_cycle(const Cycle& cycle) {
  link_.add(seconds(cycle.link));
  const std::size_t size = size_of(cycle.rows);
  server_[size].add(seconds(cycle.server));
  if (cycle.levels == 0) return;
  ++cycles_;
  tokens_[size].add(cycle.tokens);
  step_.add(seconds(cycle.drafting) / cycle.levels);
}

void DraftControl::observe_stream_begin(Duration link) {
  link_.add(seconds(link));
}

void DraftControl::observe_streamed(std::uint32_t tokens, Duration gap) {
  streamed_.add(seconds(gap) / tokens, tokens);
}

// What is known of the nearest size; fewer rows bring fewer tokens.
double DraftControl::drafted_tokens(std::size_t size) const {
  for (std::size_t distance = 0; distance < kSizes; ++distance) {
    if (size + distance < kSizes && tokens_[size + distance].known()) {
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
  for (std::size_t distance = 0; distance < kSizes; ++distance) {
    if (size + distance < kSizes && server_[size + distance].known()) {
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
                                     server_seconds(size_of(shape.nodes + 1)));
}

DraftControl::Decision DraftControl::decide(const TreeShape& shape) {
  if (shape.nodes == 0) return stream("the server's row budget leaves no room for drafts");
  const std::size_t size = size_of(shape.nodes + 1);
  if (cycles_ < kCyclesToLearn) {
    // Even if every draft were right?
    const double best = drafted_rate(shape, shape.depth + 1.0);
    const Mean& pass = streamed_.known() ? streamed_ : prompt_server_;
    const double streamed = pass.known() ? 1.0 / std::max(1e-6, pass.value()) : 0.0;
    if (best < streamed) {
      return stream(
          text("at most %.0f tokens/s could be drafted, at least %.0f streamed", best, streamed));
    }
    return draft("not measured yet");
  }

  const double tokens = drafted_tokens(size);
  const double drafted = drafted_rate(shape, tokens);
  const double pass = std::max(1e-6, server_seconds(size));
  const std::string how = text("%.0f tokens/s (%.1f a cycle, link %.1f ms, pass %.1f ms)", drafted,
                               tokens, 1e3 * link_.value(), 1e3 * pass);
  if (!streamed_.known()) {
    if (1.0 / pass > kStreamMargin * drafted) {
      return stream(text("at least %.0f tokens/s, drafted ", 1.0 / pass) + how);
    }
    if (kWidePassFactor / pass > drafted) return probe("drafted " + how + ", streaming is tried");
    return draft("drafted " + how + ", no stream can be faster");
  }
  const double streamed = 1.0 / std::max(1e-6, streamed_.value());
  const bool streams =
      streaming_ ? drafted <= kDraftMargin * streamed : streamed > kStreamMargin * drafted;
  std::string why = text("streamed %.0f tokens/s, drafted ", streamed) + how;
  return streams ? stream(std::move(why)) : draft(std::move(why));
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
