#include "shared/model/marked_text.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {

MarkedText MarkedText::foreign(std::string text) {
  MarkedText marked(std::move(text));
  marked.mark(0, marked.size());
  return marked;
}

bool MarkedText::is_foreign(std::size_t begin, std::size_t end) const {
  const auto after = std::partition_point(spans_.begin(), spans_.end(),
                                          [begin](const Span& span) { return span.end <= begin; });
  return after != spans_.end() && after->begin < end;
}

void MarkedText::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!spans_.empty() && spans_.back().end == begin) {
    spans_.back().end = end;
  } else {
    spans_.push_back({begin, end});
  }
}

void MarkedText::append(const MarkedText& other) {
  const std::size_t shift = text_.size();
  text_ += other.text_;
  for (const Span& span : other.spans_) mark(shift + span.begin, shift + span.end);
}

void MarkedText::append(std::string_view text, bool by_stranger) {
  const std::size_t begin = text_.size();
  text_ += text;
  if (by_stranger) mark(begin, text_.size());
}

MarkedText MarkedText::slice(std::size_t begin, std::size_t end) const {
  EDGEDRAFT_CHECK(begin <= end && end <= text_.size());
  MarkedText part(text_.substr(begin, end - begin));
  auto span = std::partition_point(spans_.begin(), spans_.end(),
                                   [begin](const Span& s) { return s.end <= begin; });
  for (; span != spans_.end() && span->begin < end; ++span) {
    part.mark(std::max(span->begin, begin) - begin, std::min(span->end, end) - begin);
  }
  return part;
}

}  // namespace edgedraft
