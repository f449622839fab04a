#include "shared/model/tokenizer/space_rule.h"

#include <string>
#include <utility>

namespace edgedraft {
namespace {

constexpr std::pair<std::string_view, SpaceRule> kNamed[] = {{"first", SpaceRule::first},
                                                             {"always", SpaceRule::always}};

Error bad_rule(const std::string& what) {
  return {Errc::bad_file, std::string(kSpaceRuleKey) + what};
}

}  // namespace

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
