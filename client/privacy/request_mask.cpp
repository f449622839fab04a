#include "client/privacy/request_mask.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "client/privacy/private_marks.h"
#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

// Patterns want UTF-8: of the same length, bytes that are none replaced.
std::string as_utf8(std::string_view text) {
  std::string valid(text);
  for (std::size_t at = 0; at < valid.size();) {
    const Utf8Front front = utf8_front(std::string_view(valid).substr(at));
    if (front.kind != Utf8Front::Kind::character) {
      std::fill_n(valid.begin() + static_cast<std::ptrdiff_t>(at), front.byte_count, '?');
    }
    at += front.byte_count;
  }
  return valid;
}

std::string upper_case(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return upper;
}

Error too_much() {
  return {Errc::unsupported, "it holds more private values than there are placeholders for (" +
                                 std::to_string(Placeholders::kCountMax) +
                                 " of a kind), or more are known than fit (" +
                                 std::to_string(PrivateVault::kValuesMax) +
                                 "): keep it on the device"};
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

RequestMask::RequestMask(PrivacyGuard& guard, PrivateMode mode)
    : guard_(guard),
      mode_(mode),
      placeholders_(std::make_shared<Placeholders>(guard.shows_types())) {}

void RequestMask::learn(std::string_view text, bool is_private, Writer writer) {
  if (is_private) return add_marked(text);
  learn_parts(text, writer, /*is_name=*/false);
}

void RequestMask::learn_name(std::string_view name, Writer writer) {
  learn_parts(name, writer, /*is_name=*/true);
}

void RequestMask::learn_parts(std::string_view text, Writer writer, bool is_name) {
  for (MarkedPart& part : split_marks(text)) {
    if (part.is_private) {
      add_marked(part.text);
      continue;
    }
    if (writer == Writer::user) placeholders_->reserve(part.text);
    const std::string safe = as_utf8(part.text);
    std::vector<PrivateSpan> found;
    for (const auto& detector : guard_.detectors()) {
      if (!is_name || detector->type() != PrivateType::key) detector->find(safe, found);
    }
    join_overlapping(found);
    if (found.empty()) continue;
    detected_.push_back(
        {.text = std::move(part.text), .writer = writer, .spans = std::move(found)});
  }
}

void RequestMask::add_marked(std::string_view value) {
  const bool grouped = is_grouped_value(as_utf8(value));
  const auto add = [&] { return guard_.vault().add(value, PrivateType::text, grouped); };
  if (add()) return;
  guard_.vault().forget_detected();
  full_ = !add() || full_;
}

Result<void> RequestMask::check() {
  if (full_) return too_much();
  const std::string forgotten = guard_.refuses_detected() ? unmarked() : "";
  if (!forgotten.empty()) {
    return Error{Errc::usage, "it holds what looks private and is not marked: " + forgotten +
                                  ". Mark it with <private>...</private>, or take it out"};
  }
  const std::vector<Detected> detected = std::exchange(detected_, {});
  if (!remember(detected)) {
    // Those of earlier requests are found again where they come again.
    guard_.vault().forget_detected();
    full_ = !remember(detected);
  }
  if (full_) return too_much();
  return boost::system::in_place_value;
}

bool RequestMask::remember(std::span<const Detected> detected) {
  for (const Detected& one : detected) {
    for (const PrivateSpan& span : one.spans) {
      const auto value = std::string_view(one.text).substr(span.begin, span.end - span.begin);
      if (!guard_.vault().add_detected(value, span.type)) return false;
    }
  }
  return true;
}

// What was known before, or is marked elsewhere in the request, nobody forgot to mark.
std::string RequestMask::unmarked() const {
  std::map<PrivateType, std::uint32_t> counts;
  for (const Detected& one : detected_) {
    if (one.writer == Writer::target) continue;
    const auto known = guard_.vault().find(one.text);
    for (const PrivateSpan& span : one.spans) {
      const bool covered = std::ranges::any_of(known, [&](const PrivateSpan& by) {
        return by.begin <= span.begin && by.end >= span.end;
      });
      if (!covered) ++counts[span.type];
    }
  }
  std::string list;
  for (const auto& [type, count] : counts) {
    list += (list.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(to_string(type));
  }
  return list;
}

std::string RequestMask::apply(std::string_view text, bool is_private) {
  std::vector<MarkedPart> parts;
  if (is_private) {
    parts.push_back({.text = std::string(text), .is_private = true});
  } else {
    parts = split_marks(text);
  }
  // Nothing of what the device wrote privately goes up, and it has no value that could be found.
  if (mode_ != PrivateMode::local && !is_private && guard_.local_texts().recognises(text)) {
    MarkedPart whole{.text = {}, .is_private = true};
    for (const MarkedPart& part : parts) whole.text += part.text;
    parts.assign(1, std::move(whole));
  }
  std::string applied;
  for (const MarkedPart& part : parts) {
    if (mode_ == PrivateMode::local) {
      found_ = found_ || part.is_private;
      holds(part.text);
      applied += part.text;
    } else if (part.is_private) {
      // The same value may be known by what it is.
      append_placeholder(applied, part.text,
                         guard_.vault().type_of(part.text).value_or(PrivateType::text));
    } else {
      append_safe(applied, part.text);
    }
  }
  return applied;
}

bool RequestMask::holds(std::string_view text) {
  const bool holds = !guard_.vault().find(text).empty() || guard_.local_texts().recognises(text);
  found_ = found_ || holds;
  return holds;
}

bool RequestMask::still_holds(std::string_view applied) {
  if (mode_ == PrivateMode::local) {
    holds(applied);
    return false;
  }
  if (guard_.local_texts().recognises(applied)) return true;
  // A value may be a word of a placeholder.
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
  // What is found in a name alone has no placeholder, and is refused.
  if (placeholders_->empty()) return Outcome{.is_local = found_ && mode_ == PrivateMode::prefix};
  return Outcome{.placeholders = placeholders_, .is_local = mode_ == PrivateMode::prefix};
}

void RequestMask::append_safe(std::string& to, std::string_view text) {
  std::size_t at = 0;
  for (const PrivateSpan& span : guard_.vault().find(text)) {
    to += text.substr(at, span.begin - at);
    append_placeholder(to, text.substr(span.begin, span.end - span.begin), span.type);
    at = span.end;
  }
  to += text.substr(at);
}

void RequestMask::append_placeholder(std::string& to, std::string_view value, PrivateType type) {
  const std::string placeholder =
      placeholders_->of(value, type, guard_.vault().identity_of(value, type));
  full_ = full_ || placeholder.empty();
  to += placeholder;
}

}  // namespace edgedraft
