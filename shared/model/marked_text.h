#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace edgedraft {

// A text that knows which of its bytes a stranger wrote: what comes from a message is foreign, what
// the chat template itself writes is not. Only the latter may hold control tokens.
class MarkedText {
 public:
  struct Span {
    std::size_t begin;
    std::size_t end;
    bool operator==(const Span&) const = default;
  };

  MarkedText() = default;
  static MarkedText own(std::string text) { return MarkedText(std::move(text)); }
  static MarkedText foreign(std::string text);

  const std::string& text() const { return text_; }
  std::size_t size() const { return text_.size(); }
  // The foreign parts, in order, none empty, no two touching.
  const std::vector<Span>& spans() const { return spans_; }
  bool has_foreign() const { return !spans_.empty(); }
  // Whether any byte of [begin, end) is foreign.
  bool is_foreign(std::size_t begin, std::size_t end) const;

  void append(const MarkedText& other);
  void append(std::string_view text, bool by_stranger);
  // Requires  begin <= end <= size()
  MarkedText slice(std::size_t begin, std::size_t end) const;

 private:
  explicit MarkedText(std::string text) : text_(std::move(text)) {}
  void mark(std::size_t begin, std::size_t end);

  std::string text_;
  std::vector<Span> spans_;
};

}  // namespace edgedraft
