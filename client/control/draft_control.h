#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "shared/base/clock.h"
#include "shared/protocol/draft_sizes.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Whether the device drafts or lets the server stream, so that tokens come as fast as they can.
//
// Drafting brings tau(r) tokens a cycle of drafting, link and pass, r being the rows that the row
// budget leaves of the tree; streaming brings a token a pass (or what the server drafts for itself)
// and pays the link once. Both rates follow from what was measured while doing either: the link is
// measured by both, so that a change of it shows in the other's rate too. What streams would bring
// is tried once if it might be better. Which of the two is done changes only for a rate that is
// better by a margin.
//
// A server may tell what streams and drafts cost it at present and what drafts bring. Then nothing
// is tried blindly: the first decision rests on that and on the link, and a tree is drafted to time
// the drafter only if it could win if drafting took no time. What was measured outweighs what
// was told, and replaces it if the two are a factor of two apart, so that a server that is wrong
// or lies costs a few cycles.
//
// Trees are timed by drafting alone, so that what is known of them is forgotten behind a row of
// prompts whose answers were streamed: then it is as if none had been timed.
//
// It owns no clock and sees no tokens. Other decisions (depth, breadth, drafting ahead) have their
// place beside decide().
class DraftControl {
 public:
  struct Decision {
    bool stream;
    // For a stream: tokens after which to decide anew, and whether it is to end there.
    std::uint32_t look_after = 0;
    bool ends_there = false;
  };

  // A prompt of `rows` rows was answered; `link` is the round trip less the server's own time.
  void observe_prompt(std::uint32_t rows, Duration link, Duration server);
  struct Cycle {
    std::uint32_t rows;                // of the tree, root included
    std::uint32_t levels;              // of the tree
    std::uint32_t tokens;              // that it brought, the target's own included
    std::optional<Duration> drafting;  // nothing: it was not timed
    Duration link;
    Duration server;  // queue and pass
  };
  void observe_cycle(const Cycle& cycle);
  // What the server tells with its verdict on a prompt: of drafts of 1, 2, 4, ... rows the time in
  // its queue and pass, and the tokens that they bring.
  struct Expected {
    Duration server;
    double tokens;
  };
  void expect_drafts(std::span<const Expected> by_size);
  // What a streamed token would take now.
  void expect_stream(Duration a_token);
  // Whether the server's sessions together would get more from streams: then this one drafts only
  // if that is much better for itself.
  void expect_crowd(bool prefers_streams) { crowd_ = prefers_streams; }
  // A stream's first verdict: so much of its time was the link's.
  void observe_stream_begin(Duration link);
  // Each further one: tokens, and the time since the verdict before.
  void observe_streamed(std::uint32_t tokens, Duration gap);

  // What to do next with trees of `shape`, already cut to the row budget; no nodes: the budget
  // leaves none.
  Decision decide(const TreeShape& shape);
  // Why the last decision was made, and whether it was another one than the one before.
  const std::string& why() const { return why_; }
  bool changed() const { return changed_; }
  // Whether the last decision was to stream.
  bool streams() const { return streaming_; }

 private:
  class Mean {
   public:
    void add(double sample, double weight = 1.0);
    bool known() const { return count_ > 0; }
    double value() const { return value_; }
    double count() const { return count_; }
    // Later samples count for more.
    void age() { count_ /= 2; }

   private:
    double count_ = 0;
    double value_ = 0;
  };
  // A mean of what was measured and of what the server told.
  class Estimate {
   public:
    void add(double sample) { measured_.add(sample); }
    void expect(double told);
    bool known() const { return told_ > 0 || measured_.known(); }
    double value() const;

   private:
    Mean measured_;
    double told_ = 0;
  };

  double drafted_tokens(std::size_t size) const;
  double server_seconds(std::size_t size) const;
  // Seconds a streamed token; 0: not known.
  double streamed_seconds() const;
  // Tokens per second from trees of this shape, which bring `tokens` per cycle.
  double drafted_rate(const TreeShape& shape, double tokens) const;
  Decision stream(std::string why);
  Decision probe(std::string why);
  Decision draft(std::string why);

  std::array<Estimate, kDraftSizes> tokens_{};
  std::array<Estimate, kDraftSizes> server_{};
  Mean prompt_server_;
  Mean link_;
  Mean step_;      // drafting, seconds a level
  Mean streamed_;  // seconds a token
  double told_stream_ = 0;
  Mean stream_factor_;      // what streams took, by what was told
  bool outlook_ = false;    // the server told of drafts
  bool crowd_ = false;      // it prefers streams
  bool step_cold_ = false;  // the next tree takes in a prompt, too
  std::uint32_t cycles_ = 0;
  std::uint32_t streamed_prompts_ = 0;  // in a row, since the last ones were forgotten
  bool streaming_ = false;
  bool changed_ = false;
  std::string why_;
};

}  // namespace edgedraft
