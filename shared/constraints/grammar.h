#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/types/constraints.h"

namespace edgedraft {

// Limits for grammars from untrusted clients.
inline constexpr std::size_t kGrammarElementsMax = 64u << 10;
inline constexpr std::size_t kGrammarDepthMax = 64;  // nesting of parentheses

using ByteSet = std::bitset<256>;

// A context-free grammar over bytes, in a subset of llama.cpp's GBNF: rules `name ::= ...`,
// literals, character classes, `.`, groups, alternatives, `*`, `+`, `?`, `{m,n}`, comments. The
// start rule is `root`. Characters are code points, matched as UTF-8 bytes.
class Grammar {
 public:
  struct Element {
    bool is_rule;
    std::uint32_t index;  // index into rules() or byte_sets()
  };
  using Sequence = std::vector<Element>;
  // Per rule: its alternatives, as indices of sequences().
  using Rule = std::vector<std::uint32_t>;

  // Errors    usage naming the line: malformed, a missing rule, left recursion, or above the limits
  static Result<Grammar> parse(std::string_view text);

  const std::vector<Rule>& rules() const { return rules_; }
  const std::vector<Sequence>& sequences() const { return sequences_; }
  const std::vector<ByteSet>& byte_sets() const { return byte_sets_; }
  std::uint32_t root() const { return root_; }

 private:
  friend class GrammarParser;
  Grammar() = default;

  std::vector<Rule> rules_;
  std::vector<Sequence> sequences_;
  std::vector<ByteSet> byte_sets_;
  std::uint32_t root_ = 0;
};

}  // namespace edgedraft
