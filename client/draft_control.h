#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "shared/base/clock.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Whether the device drafts or lets the server stream, so that tokens come as fast as they can.
//
// Drafting brings tau(r) tokens a cycle of drafting, link and pass, r being the rows that the row
// budget leaves of the tree; streaming brings a token a pass (or what the server drafts for itself)
// and pays the link once. Both rates follow from what was measured while doing either: the link is
// measured by both, so that a change of it shows in the other's rate too. What streams would bring
// is tried once where it might be better. Which of the two is done changes only for a rate that is
// better by a margin.
//
// It owns no clock and sees no tokens. Other decisions (depth, breadth, drafting ahead) have their
// place beside decide().
class DraftControl {
 public:
  struct Decision {
    bool stream;
    // Of a stream: tokens after which to decide anew, and whether it is to end there.
    std::uint32_t look_after = 0;
    bool ends_there = false;
  };

  // A prompt of `rows` rows was answered; `link` is the round trip less the server's own time.
  void observe_prompt(std::uint32_t rows, Duration link, Duration server);
  struct Cycle {
    std::uint32_t rows;    // of the tree, root included
    std::uint32_t levels;  // of the tree
    std::uint32_t tokens;  // that it brought, the target's own included
    Duration drafting;
    Duration link;
    Duration server;  // queue and pass
  };
  void observe_cycle(const Cycle& cycle);
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

   private:
    double count_ = 0;
    double value_ = 0;
  };
  // Sizes 1, 2, up to 4, up to 8, ..., up to 256 rows.
  static constexpr std::size_t kSizes = 9;

  double drafted_tokens(std::size_t size) const;
  double server_seconds(std::size_t size) const;
  // Tokens a second from trees of this shape; `tokens` a cycle.
  double drafted_rate(const TreeShape& shape, double tokens) const;
  Decision stream(std::string why);
  Decision probe(std::string why);
  Decision draft(std::string why);

  std::array<Mean, kSizes> tokens_{};
  std::array<Mean, kSizes> server_{};
  Mean prompt_server_;
  Mean link_;
  Mean step_;      // drafting, seconds a level
  Mean streamed_;  // seconds a token
  std::uint32_t cycles_ = 0;
  bool streaming_ = false;
  bool changed_ = false;
  std::string why_;
};

}  // namespace edgedraft
