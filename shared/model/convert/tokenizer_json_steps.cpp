#include "shared/model/convert/tokenizer_json_steps.h"

#include <optional>
#include <utility>

#include "shared/model/json_file.h"
#include "shared/model/tokenizer/pre_tokenizer_rules.h"

namespace edgedraft {
namespace {

using nlohmann::json;

constexpr std::size_t kNestingMax = 8;

// Steps of a component, with nested Sequences flattened.
Result<void> unfold(const json& component, const char* list_key, std::size_t depth,
                    std::vector<std::pair<std::string, json>>& steps) {
  if (component.is_null()) return {};
  if (!component.is_object() || depth > kNestingMax) {
    return bad_tokenizer("a step is not an object");
  }
  const auto type = json_string(component, "type");
  if (!type) return type.error();
  if (!*type) return bad_tokenizer("a step has no type");
  if (**type != "Sequence") {
    steps.emplace_back(**type, component);
    return {};
  }
  const auto list = component.find(list_key);
  if (list == component.end() || !list->is_array()) {
    return bad_tokenizer(std::string("a Sequence has no ") + list_key);
  }
  for (const json& part : *list) {
    if (auto done = unfold(part, list_key, depth + 1, steps); !done) return done;
  }
  return {};
}

Result<std::vector<std::pair<std::string, json>>> steps_of(const json& file, const char* key,
                                                           const char* list_key) {
  std::vector<std::pair<std::string, json>> steps;
  const auto component = file.find(key);
  if (component == file.end()) return steps;
  if (auto done = unfold(*component, list_key, 0, steps); !done) return done.error();
  return steps;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// {"String": ...} or {"Regex": ...}: kind and text.
std::pair<std::string, std::string> pattern_of(const json& step) {
  const auto pattern = step.find("pattern");
  if (pattern == step.end() || !pattern->is_object() || pattern->size() != 1) return {};
  const auto entry = pattern->begin();
  return entry->is_string() ? std::pair(entry.key(), entry->get<std::string>())
                            : std::pair<std::string, std::string>();
}

bool flag_of(const json& step, const char* key, bool fallback) {
  const auto found = step.find(key);
  return found != step.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

std::string text_of(const json& step, const char* key) {
  const auto found = step.find(key);
  return found != step.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Result<void> read_normalizer(const json& file, TextSteps& out, bool& replaces_spaces) {
  const auto steps = steps_of(file, "normalizer", "normalizers");
  if (!steps) return steps.error();
  for (const auto& [type, step] : *steps) {
    if (type == "NFC") {
      out.nfc = true;
    } else if (type == "Prepend" && text_of(step, "prepend") == kSpaceMark) {
      out.space_rule = SpaceRule::each;
    } else if (type == "Replace" &&
               pattern_of(step) == std::pair<std::string, std::string>("String", " ") &&
               text_of(step, "content") == kSpaceMark) {
      replaces_spaces = true;
    } else if (type == "Replace" || type == "Prepend") {
      return unsupported_tokenizer("this form of the normalizer " + type);
    } else {
      return unsupported_tokenizer("the normalizer " + type);
    }
  }
  return {};
}

// Longer than any known expression.
constexpr std::size_t kPatternBytesMax = 16u << 10;

// Escapes line ends, as in the known expressions.
std::string with_escaped_line_ends(std::string pattern) {
  for (const auto& [from, to] : {std::pair("\r", "\\r"), std::pair("\n", "\\n")}) {
    pattern = replaced(std::move(pattern), from, to);
  }
  return pattern;
}

Error unsupported_split(const std::string& what) {
  return {Errc::unsupported, "tokenizer.json: the pre-tokenizer " + what +
                                 " is not supported; for byte-level BPE, --pre NAME chooses rules"};
}

Result<void> read_split(const json& step, bool replaces_spaces, TextSteps& out) {
  const auto [kind, pattern] = pattern_of(step);
  const std::string behavior = text_of(step, "behavior");
  if (kind == "String" && pattern == " " && replaces_spaces) {
    out.is_gemma = true;
    return {};
  }
  const bool invert = flag_of(step, "invert", false);
  // Patterns of the second form cover the whole text, so nothing lies between their matches.
  const bool isolates = (behavior == "Isolated" && !invert) || (behavior == "Removed" && invert);
  if (kind != "Regex" || !isolates) {
    return unsupported_split("Split of the kind " + kind + ", " + behavior);
  }
  if (pattern.size() > kPatternBytesMax) {
    return unsupported_tokenizer("a Split by an expression of " + std::to_string(pattern.size()) +
                                 " bytes");
  }
  out.patterns.push_back(with_escaped_line_ends(pattern));
  return {};
}

Result<void> read_metaspace(const json& step, TextSteps& out) {
  const std::string replacement = text_of(step, "replacement");
  if (replacement != kSpaceMark) return unsupported_tokenizer("Metaspace with another replacement");
  std::string scheme = text_of(step, "prepend_scheme");
  // Old files have a flag instead.
  if (scheme.empty()) scheme = flag_of(step, "add_prefix_space", true) ? "always" : "never";
  const std::optional<SpaceRule> rule =
      scheme == "never" ? SpaceRule::none : find_space_rule(scheme);
  if (!rule) return unsupported_tokenizer("Metaspace with the prepend_scheme " + scheme);
  // After a Prepend each part already starts with a space.
  if (out.space_rule != SpaceRule::each) out.space_rule = *rule;
  out.splits_at_spaces = flag_of(step, "split", true);
  return {};
}

Result<void> read_pre_tokenizer(const json& file, Splits splits, TextSteps& out,
                                bool& replaces_spaces) {
  const auto steps = steps_of(file, "pre_tokenizer", "pretokenizers");
  if (!steps) return steps.error();
  for (const auto& [type, step] : *steps) {
    if (splits == Splits::ignore && type != "ByteLevel" && type != "Metaspace") continue;
    if (type == "Split") {
      if (auto read = read_split(step, replaces_spaces, out); !read) return read;
    } else if (type == "Digits") {
      if (!flag_of(step, "individual_digits", false)) {
        return unsupported_split("Digits without individual_digits");
      }
      out.patterns.emplace_back(kDigitPattern);
    } else if (type == "ByteLevel") {
      if (flag_of(step, "add_prefix_space", false)) {
        return unsupported_tokenizer("the pre-tokenizer ByteLevel with add_prefix_space");
      }
      if (flag_of(step, "use_regex", true)) out.patterns.emplace_back(kGpt2Pattern);
      out.byte_level = true;
    } else if (type == "Metaspace") {
      replaces_spaces = true;
      if (auto read = read_metaspace(step, out); !read) return read;
    } else {
      return unsupported_split(type);
    }
  }
  return {};
}

// Text of a SpecialToken in a template; nullopt for the Sequence.
std::optional<std::string> special_of(const json& part) {
  const auto special = part.find("SpecialToken");
  if (special == part.end() || !special->is_object()) return std::nullopt;
  return text_of(*special, "id");
}

Result<void> read_template(const json& step, TokenizerParts& parts) {
  const auto single = step.find("single");
  if (single == step.end() || !single->is_array()) {
    return bad_tokenizer("TemplateProcessing has no template");
  }
  bool behind_text = false;
  for (const json& part : *single) {
    if (!part.is_object()) {
      return unsupported_tokenizer("TemplateProcessing as a string");
    }
    const auto special = special_of(part);
    if (!special) {
      behind_text = true;
      continue;
    }
    std::optional<bool>& flag = behind_text ? parts.add_eos : parts.add_bos;
    if (flag.value_or(false))
      return unsupported_tokenizer("TemplateProcessing with several special tokens");
    flag = true;
    if (!behind_text) parts.bos = parts.find(*special);
  }
  return {};
}

}  // namespace

Error bad_tokenizer(const std::string& what) {
  return {Errc::bad_file, "tokenizer.json: " + what};
}

Error unsupported_tokenizer(const std::string& what) {
  return {Errc::unsupported, "tokenizer.json: " + what + " is not supported"};
}

Result<TextSteps> read_text_steps(const json& file, Splits splits) {
  TextSteps out;
  bool replaces_spaces = false;
  if (auto read = read_normalizer(file, out, replaces_spaces); !read) return read.error();
  if (auto read = read_pre_tokenizer(file, splits, out, replaces_spaces); !read)
    return read.error();
  if (out.byte_level) {
    if (replaces_spaces || out.space_rule != SpaceRule::none)
      return unsupported_tokenizer("ByteLevel after another form of spaces");
    return out;
  }
  if (!replaces_spaces)
    return unsupported_tokenizer("a pre-tokenizer that is neither ByteLevel nor Metaspace");
  if (out.nfc) return unsupported_tokenizer("the normalizer NFC with SentencePiece's pieces");
  if (!out.patterns.empty())
    return unsupported_tokenizer("the pre-tokenizer Split with SentencePiece's pieces");
  return out;
}

Result<void> read_post_processor(const json& file, TokenizerParts& parts) {
  const auto steps = steps_of(file, "post_processor", "processors");
  if (!steps) return steps.error();
  parts.add_bos = false;
  for (const auto& [type, step] : *steps) {
    if (type == "ByteLevel") continue;  // only moves offsets
    if (type != "TemplateProcessing") return unsupported_tokenizer("the post-processor " + type);
    if (auto read = read_template(step, parts); !read) return read;
  }
  return {};
}

}  // namespace edgedraft
