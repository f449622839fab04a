#include "client/privacy/request_mask.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <vector>

#include "client/privacy/private_marks.h"
#include "client/privacy/unescaped_text.h"
#include "shared/model/utf8.h"

namespace edgedraft::client {
namespace {

std::string upper_case(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return upper;
}

PrivateSpan shifted(PrivateSpan span, std::size_t by) {
  return {.begin = span.begin + by, .end = span.end + by, .type = span.type};
}

// Widens a span that begins inside an escape, as at the "n" of a line break. True if it did.
bool takes_escape(PrivateSpan& span, std::span<const UnescapedText> readings) {
  const std::size_t begin = span.begin;
  for (const UnescapedText& reading : readings) {
    const auto behind = std::ranges::upper_bound(reading.begins, begin);
    if (behind == reading.begins.begin()) continue;
    const auto last = static_cast<std::size_t>(behind - reading.begins.begin()) - 1;
    if (reading.ends[last] > begin) {
      span.begin = std::min<std::size_t>(span.begin, *std::prev(behind));
    }
  }
  return span.begin < begin;
}

Error too_much() {
  return {Errc::unsupported, "too many private values: more than there are placeholders for (" +
                                 std::to_string(Placeholders::kCountMax) +
                                 " per type), more marked values than allowed (" +
                                 std::to_string(PrivateVault::kRequestMax) + " per request, " +
                                 std::to_string(PrivateVault::kValuesMax) +
                                 " in use within an hour), or too many detected values: split the "
                                 "text, or keep it on the device"};
}

}  // namespace

bool is_placeholder(std::string_view text) {
  const auto within = [&](std::size_t begin, std::size_t count, char low, char high) {
    return std::ranges::all_of(text.substr(begin, count),
                               [&](char c) { return c >= low && c <= high; });
  };
  if (text.size() != kPlaceholderBytes) return false;
  const std::string upper = upper_case(text);
  text = upper;
  return text.front() == '[' && within(1, 4, 'A', 'Z') && text[5] == '_' &&
         within(6, 3, '0', '9') && text.back() == ']';
}

void Placeholders::reserve(std::string_view text) {
  for (std::size_t at = text.find('['); at != std::string_view::npos; at = text.find('[', at + 1)) {
    const std::string_view candidate = text.substr(at, kPlaceholderBytes);
    if (is_placeholder(candidate)) reserved_.insert(upper_case(candidate));
  }
}

std::string Placeholders::of(std::string_view value, PrivateType type,
                             const std::u32string& identity) {
  const auto key = std::pair(type, identity);
  if (const auto known = given_.find(key); known != given_.end()) return known->second;
  const std::string label(label_of(shows_types_ ? type : PrivateType::text));
  std::uint32_t& number = numbers_[shows_types_ ? type : PrivateType::text];
  while (number < kCountMax) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%03u", ++number % 1000);
    std::string placeholder = "[" + label + "_" + digits + "]";
    if (reserved_.contains(placeholder)) continue;
    given_.emplace(key, placeholder);
    values_.emplace(placeholder, value);
    ++counts_[type];
    return placeholder;
  }
  return {};
}

const std::string* Placeholders::value_of(const std::string& placeholder) const {
  const auto found = values_.find(upper_case(placeholder));
  return found == values_.end() ? nullptr : &found->second;
}

// The parts of one text, joined, without marks.
struct RequestMask::PlainText {
  struct Part {
    std::size_t begin;
    std::size_t end;
    bool is_private;
  };

  // Returns the spans between marked ones.
  std::vector<PrivateSpan> open() const {
    std::vector<PrivateSpan> open;
    std::size_t at = 0;
    const auto add = [&](std::size_t end) {
      if (end > at) open.push_back({.begin = at, .end = end, .type = PrivateType::text});
    };
    for (const PrivateSpan& span : marked) {
      add(span.begin);
      at = span.end;
    }
    add(text.size());
    return open;
  }
  std::string_view of(const PrivateSpan& span) const {
    return std::string_view(text).substr(span.begin, span.end - span.begin);
  }

  std::string text;
  std::vector<Part> parts;
  std::vector<PrivateSpan> marked;         // from left to right
  std::vector<PrivateSpan> marked_within;  // spans of marks nested in those
};

RequestMask::PlainText RequestMask::without_marks_of(std::span<const RequestPart> parts) {
  PlainText plain;
  const auto add_private = [&plain](std::string_view text) {
    UnmarkedText unmarked = without_marks(text);
    const std::size_t begin = plain.text.size();
    plain.text += unmarked.text;
    plain.marked.push_back({.begin = begin, .end = plain.text.size(), .type = PrivateType::text});
    for (const PrivateSpan& span : unmarked.marked) {
      plain.marked_within.push_back(shifted(span, begin));
    }
  };
  for (const RequestPart& part : parts) {
    const std::size_t begin = plain.text.size();
    if (part.is_private) {
      add_private(part.text);
    } else {
      for (const MarkedPart& piece : split_marks(part.text)) {
        if (piece.is_private) {
          add_private(piece.text);
        } else {
          plain.text += piece.text;
        }
      }
    }
    plain.parts.push_back(
        {.begin = begin, .end = plain.text.size(), .is_private = part.is_private});
  }
  return plain;
}

RequestMask::RequestMask(PrivacyGuard& guard, PrivateMode mode)
    : guard_(guard),
      mode_(mode),
      placeholders_(std::make_shared<Placeholders>(guard.shows_types())),
      given_before_(guard.vault().given_count()) {}

RequestMask::RequestMask(const RequestMask& learned, PrivateMode mode)
    : guard_(learned.guard_),
      mode_(mode),
      placeholders_(std::make_shared<Placeholders>(*learned.placeholders_)),
      spans_(learned.spans_) {}

void RequestMask::learn(std::string_view text, bool is_private, Writer writer) {
  learn(std::array{RequestPart{.text = text, .is_private = is_private}}, writer);
}

void RequestMask::learn(std::span<const RequestPart> parts, Writer writer) {
  learn_plain(without_marks_of(parts), writer, /*is_name=*/false);
}

void RequestMask::learn_name(std::string_view name, Writer writer) {
  learn_plain(without_marks_of(std::array{RequestPart{.text = name}}), writer, /*is_name=*/true);
}

void RequestMask::learn_plain(const PlainText& plain, Writer writer, bool is_name) {
  for (const PrivateSpan& span : plain.marked) add_marked(plain.of(span));
  for (const PrivateSpan& span : plain.marked_within) add_marked(plain.of(span));
  const auto open = plain.open();
  if (open.empty()) return;
  if (writer == Writer::user) {
    for (const PrivateSpan& span : open) placeholders_->reserve(plain.of(span));
  }
  detect(plain, writer, is_name);
}

// Marked text is removed as a whole, so detected values inside it are ignored.
void RequestMask::detect(const PlainText& plain, Writer writer, bool is_name) {
  if (guard_.detectors().empty()) return;
  const auto readings = unescaped_texts(plain.text);
  // Names in programs look like keys.
  const auto look = [&](std::string_view text) {
    return detected_in(text, guard_.detectors(), /*with_keys=*/!is_name);
  };
  std::vector<PrivateSpan> found = look(plain.text);
  // A value may be detected only with its neighbours, or only without them.
  if (!plain.marked.empty()) {
    for (const PrivateSpan& open : plain.open()) {
      for (const PrivateSpan& span : look(plain.of(open))) {
        found.push_back(shifted(span, open.begin));
      }
    }
  }
  std::vector<PrivateSpan> all;
  // Spans widened by an escape are masked but not added to the vault, which gets the decoded value.
  std::vector<PrivateSpan> with_escape;
  const auto take_in = [&](std::string_view text, const UnescapedText* reading,
                           std::span<const UnescapedText> deeper) {
    join_overlapping(found);
    std::vector<PrivateSpan> values;
    std::vector<PrivateSpan> written_values;
    for (const PrivateSpan& span : found) {
      PrivateSpan written = reading == nullptr ? span : reading->as_written(span);
      if (is_covered_by(plain.marked, written) || is_covered_by(all, written)) continue;
      if (takes_escape(written, deeper)) {
        with_escape.push_back(written);
      } else {
        values.push_back(span);
        written_values.push_back(written);
      }
    }
    all.insert(all.end(), written_values.begin(), written_values.end());
    join_overlapping(all);
    if (values.empty()) return;
    detected_.push_back({.text = std::string(text), .writer = writer, .spans = std::move(values)});
  };
  const std::span<const UnescapedText> deeper = readings;
  take_in(plain.text, nullptr, deeper);
  for (std::size_t i = 0; i < readings.size(); ++i) {
    found = look(readings[i].text);
    take_in(readings[i].text, &readings[i], deeper.subspan(i + 1));
  }
  all.insert(all.end(), with_escape.begin(), with_escape.end());
  if (all.empty()) return;
  std::vector<PrivateSpan>& spans = spans_[plain.text];
  spans.insert(spans.end(), all.begin(), all.end());
  join_overlapping(spans);
}

void RequestMask::add_marked(std::string_view value) {
  if (full_) return;  // check() refuses the request
  PrivateVault& vault = guard_.vault();
  full_ = !vault.add(value, PrivateType::text) ||
          vault.given_count() > given_before_ + PrivateVault::kRequestMax;
}

Result<void> RequestMask::check() {
  if (full_) return too_much();
  const std::string forgotten = guard_.refuses_detected() ? unmarked() : "";
  if (!forgotten.empty()) {
    return Error{Errc::usage, "the text holds unmarked values that look private: " + forgotten +
                                  ". Mark them with <private>...</private>, or remove them"};
  }
  const std::vector<Detected> detected = std::exchange(detected_, {});
  if (!remember(detected)) {
    // Values detected in earlier requests will be detected again.
    guard_.vault().forget_detected();
    full_ = !remember(detected);
  }
  if (full_) return too_much();
  return boost::system::in_place_value;
}

bool RequestMask::remember(std::span<const Detected> detected) {
  const auto add = [this](const Detected& one, const PrivateSpan& span, bool as_written) {
    // Longer values would fill the memory; they are detected again in later requests.
    constexpr std::size_t kBytesMax = 16'384;
    const auto value = std::string_view(one.text).substr(span.begin, span.end - span.begin);
    return value.size() > kBytesMax || guard_.vault().add_detected(value, span.type, as_written);
  };
  for (const Detected& one : detected) {
    for (const PrivateSpan& span : one.spans) {
      if (!add(one, span, /*as_written=*/false)) return false;
    }
  }
  // The vault misses a value if its groups are too far apart or letters or digits adjoin it.
  // Checked after all values were added, because the first search after an addition is expensive.
  std::vector<std::pair<const Detected*, PrivateSpan>> missed;
  for (const Detected& one : detected) {
    if (std::ranges::none_of(one.spans, [](const auto& span) { return is_grouped(span.type); })) {
      continue;
    }
    const auto known = guard_.vault().find(one.text);
    for (const PrivateSpan& span : one.spans) {
      if (!is_covered_by(known, span)) missed.emplace_back(&one, span);
    }
  }
  return std::ranges::all_of(
      missed, [&](const auto& one) { return add(*one.first, one.second, /*as_written=*/true); });
}

// Lists detected values that are neither known nor marked elsewhere in the request.
std::string RequestMask::unmarked() const {
  std::map<PrivateType, std::uint32_t> counts;
  for (const Detected& one : detected_) {
    if (one.writer == Writer::target) continue;
    const auto known = guard_.vault().find(one.text);
    for (const PrivateSpan& span : one.spans) {
      if (!is_covered_by(known, span)) ++counts[span.type];
    }
  }
  std::string list;
  for (const auto& [type, count] : counts) {
    list += (list.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(to_string(type));
  }
  return list;
}

std::string RequestMask::apply(std::string_view text, bool is_private) {
  return std::move(apply(std::array{RequestPart{.text = text, .is_private = is_private}}).front());
}

std::vector<std::string> RequestMask::apply(std::span<const RequestPart> parts) {
  const PlainText plain = without_marks_of(parts);
  std::vector<PrivateSpan> spans = private_spans(plain);
  if (mode_ == PrivateMode::local) {
    found_ = found_ || !spans.empty();
    spans.clear();
  }
  std::vector<std::string> applied;
  std::size_t at = 0;
  auto span = spans.begin();
  for (const PlainText::Part& part : plain.parts) {
    const bool is_last = applied.size() + 1 == plain.parts.size();
    // An empty private part also gets a placeholder.
    bool is_open_end = part.is_private && part.begin == part.end;
    std::string& text = applied.emplace_back();
    while (span != spans.end() &&
           (span->begin < part.end || is_last || (is_open_end && span->begin == part.end))) {
      text.append(plain.text, at, span->begin - at);
      append_placeholder(text, plain.of(*span), span->type);
      at = span->end;
      ++span;
      is_open_end = false;
    }
    if (at >= part.end) continue;
    text.append(plain.text, at, part.end - at);
    at = part.end;
  }
  return applied;
}

std::vector<PrivateSpan> RequestMask::private_spans(const PlainText& plain) const {
  std::vector<PrivateSpan> spans = guard_.vault().find(plain.text);
  spans.insert(spans.end(), plain.marked.begin(), plain.marked.end());
  // A short value is found only as a separate word. A mark ends a word, and may be inside one.
  if (!plain.marked.empty()) {
    for (const PrivateSpan& open : plain.open()) {
      for (const PrivateSpan& span : guard_.vault().find(plain.of(open))) {
        spans.push_back(shifted(span, open.begin));
      }
    }
  }
  if (const auto detected = spans_.find(plain.text); detected != spans_.end()) {
    std::ranges::copy_if(detected->second, std::back_inserter(spans), [&](const PrivateSpan& span) {
      return !is_covered_by(plain.marked, span);
    });
  }
  // Text that the device wrote privately must not be sent, although it holds no known value.
  for (const PlainText::Part& part : plain.parts) {
    const PrivateSpan whole{.begin = part.begin, .end = part.end, .type = PrivateType::text};
    if (!part.is_private && guard_.local_texts().recognises(plain.of(whole))) {
      spans.push_back(whole);
    }
  }
  join_overlapping(spans);
  return spans;
}

bool RequestMask::holds(std::string_view text) {
  const bool holds = spans_.contains(std::string(text)) || !guard_.vault().find(text).empty() ||
                     guard_.local_texts().recognises(text);
  found_ = found_ || holds;
  return holds;
}

bool RequestMask::still_holds(std::string_view applied) {
  if (mode_ == PrivateMode::local) {
    holds(applied);
    return false;
  }
  if (guard_.local_texts().recognises(applied)) return true;
  // A value may equal a word of a placeholder.
  return std::ranges::any_of(guard_.vault().find(applied), [&](const PrivateSpan& span) {
    for (std::size_t at = span.begin + 1 - std::min(span.begin + 1, kPlaceholderBytes);
         at <= span.begin; ++at) {
      const std::string_view around = applied.substr(at, kPlaceholderBytes);
      const bool covers = at + around.size() >= span.end;
      if (covers && placeholders_->value_of(std::string(around)) != nullptr) return false;
    }
    return true;
  });
}

Result<RequestMask::Outcome> RequestMask::outcome() const {
  if (mode_ == PrivateMode::local) return Outcome{.is_local = found_};
  if (full_) return too_much();
  // A value found only in a name has no placeholder; the request is refused.
  if (placeholders_->empty()) return Outcome{.is_local = found_ && mode_ == PrivateMode::prefix};
  return Outcome{.placeholders = placeholders_, .is_local = mode_ == PrivateMode::prefix};
}

void RequestMask::append_placeholder(std::string& to, std::string_view value, PrivateType type) {
  if (full_) return;  // outcome() refuses the request
  // The vault may have this value with a type.
  const auto known = guard_.vault().known_as(value);
  if (known) {
    value = known->text;
    type = known->type;
  }
  const std::string placeholder =
      placeholders_->of(value, type, guard_.vault().identity_of(value, type));
  full_ = placeholder.empty();
  to += placeholder;
}

}  // namespace edgedraft::client
