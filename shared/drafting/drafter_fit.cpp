#include "shared/drafting/drafter_fit.h"

#include <numeric>
#include <string>

#include "shared/model/families/family.h"
#include "shared/protocol/limits.h"

namespace edgedraft {

Result<void> check_target(const DrafterFacts& facts, const DecoderConfig& target) {
  const struct {
    const char* name;
    std::uint32_t said;
    std::uint32_t actual;
  } sizes[] = {
      {"layer count", facts.target.layer_count, target.layer_count},
      {"width", facts.target.dim, target.layer.dim},
      {"number of key heads", facts.target.kv_heads, target.layer.heads.kv_heads},
      {"head size", facts.target.head_dim, target.layer.heads.head_dim},
      {"vocabulary", facts.vocabulary_count, target.vocabulary_count},
  };
  constexpr const char* kRemedy = "; make the bundle again with `edgedraft convert --bundle`";
  for (const auto& size : sizes) {
    if (size.said == 0 || size.said == size.actual) continue;
    return Error{Errc::mismatch, "the drafter was made for a target whose " +
                                     std::string(size.name) + " is " + std::to_string(size.said) +
                                     "; this target's is " + std::to_string(size.actual) + kRemedy};
  }
  const auto cols = target.kv_cols();
  const auto windows = target.kv_windows();
  for (const TargetSizes::Keys& keys : facts.target.keys) {
    if (keys.layer < cols.size() && cols[keys.layer] == keys.cols &&
        windows[keys.layer] == keys.window) {
      continue;
    }
    return Error{Errc::mismatch, "the drafter reads " + std::to_string(keys.cols) +
                                     " columns of keys of the target's layer " +
                                     std::to_string(keys.layer) +
                                     ", which has others or another window" + kRemedy};
  }
  return {};
}

Result<void> check_plain(const DecoderConfig& target) {
  if (is_plain(target)) return {};
  return Error{
      Errc::unsupported,
      "this kind of drafter reads keys and values of Llama's layers, and the target is a " +
          target.architecture + "; `edgedraft models` lists the kinds that fit"};
}

Result<void> check_row(std::span<const std::uint32_t> scale_groups) {
  const auto values = std::accumulate(scale_groups.begin(), scale_groups.end(), std::uint64_t{0});
  if (values <= kRowValuesMax && scale_groups.size() <= kScaleGroupsMax) return {};
  return Error{Errc::unsupported,
               "the drafter reads " + std::to_string(values) + " values per position in " +
                   std::to_string(scale_groups.size()) + " groups; the link carries at most " +
                   std::to_string(kRowValuesMax) + " in " + std::to_string(kScaleGroupsMax) +
                   "; use a drafter that reads fewer layers of its target (a smaller TLI), or one "
                   "that needs only tokens"};
}

}  // namespace edgedraft
