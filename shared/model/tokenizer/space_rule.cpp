#include "shared/model/tokenizer/space_rule.h"

#include <utility>

namespace edgedraft {
namespace {

constexpr std::pair<std::string_view, SpaceRule> kNamed[] = {{"first", SpaceRule::first},
                                                             {"always", SpaceRule::always}};

Error bad_rule(const std::string& what) {
  return {Errc::bad_file, std::string(kSpaceRuleKey) + what};
}

std::string with_each_replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at; (at = text.find(from)) != text.npos;) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

}  // namespace

std::string with_space_marks(std::string_view text) {
  return with_each_replaced(text, " ", kSpaceMark);
}

std::string without_space_marks(std::string_view text) {
  return with_each_replaced(text, kSpaceMark, " ");
}

std::string_view space_rule_name(SpaceRule rule) {
  for (const auto& [name, named] : kNamed) {
    if (named == rule) return name;
  }
  return {};
}

std::optional<SpaceRule> find_space_rule(std::string_view name) {
  for (const auto& [known, rule] : kNamed) {
    if (known == name) return rule;
  }
  return std::nullopt;
}

Result<SpaceRule> read_space_rule(const GgufFile& file) {
  const auto adds = file.get_bool_or("tokenizer.ggml.add_space_prefix", true);
  if (!adds) return adds.error();
  if (file.find_value(kSpaceRuleKey) == nullptr) return *adds ? SpaceRule::each : SpaceRule::none;
  const auto name = file.get_string(kSpaceRuleKey);
  if (!name) return name.error();
  const auto rule = find_space_rule(*name);
  if (!rule) return bad_rule(" is '" + std::string(*name) + "'; expected 'first' or 'always'");
  if (!*adds) return bad_rule(" contradicts tokenizer.ggml.add_space_prefix");
  return *rule;
}

bool wants_space(SpaceRule rule, std::string_view part, std::size_t begin) {
  if (part.empty() || part.starts_with(' ') || part.starts_with(kSpaceMark)) return false;
  return rule == SpaceRule::always || (rule == SpaceRule::first && begin == 0);
}

}  // namespace edgedraft
