#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace edgedraft {

// Text that records which bytes are untrusted: message content is foreign, the chat template's own
// text is not. Only the latter may contain control tokens.
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
  // Foreign parts in order, not empty, not adjacent.
  const std::vector<Span>& spans() const { return spans_; }
  bool has_foreign() const { return !spans_.empty(); }
  // True if any byte of [begin, end) is foreign.
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
