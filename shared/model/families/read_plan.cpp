#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "shared/model/families/family.h"
#include "shared/model/tensor_shapes.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kContextMax = 0x7FFFFFFFu;

bool has_key(const Family& family, std::string_view key) {
  return std::ranges::find(family.keys, key) != family.keys.end();
}

// A number of all layers. Of layers that differ, which a family must know, the first that is not 0.
std::uint32_t shared_count(PlanKeys& keys, const Family& family, std::string_view key,
                           std::uint32_t layer_count) {
  const auto counts = keys.counts(key, layer_count, kWidthMax);
  const bool differ =
      std::ranges::adjacent_find(counts, std::ranges::not_equal_to()) != counts.end();
  if (differ && !has_key(family, key)) {
    keys.refuse(key, ": layers of different sizes are not supported in a " +
                         std::string(family.architecture) + " model");
  }
  const auto found = std::ranges::find_if(counts, [](std::uint32_t count) { return count > 0; });
  if (found != counts.end()) return *found;
  keys.fail(bad_file(keys.full(key) + " is 0"));
  return 1;
}

HeadShape read_heads(PlanKeys& keys, const Family& family, std::uint32_t dim,
                     std::uint32_t layer_count) {
  const std::uint32_t query_heads = shared_count(keys, family, "attention.head_count", layer_count);
  const std::uint32_t kv_heads =
      keys.has("attention.head_count_kv")
          ? shared_count(keys, family, "attention.head_count_kv", layer_count)
          : query_heads;
  const std::uint32_t head_dim =
      keys.count_or("attention.key_length", kWidthMax, dim / query_heads);
  if (keys.count_or("attention.value_length", kWidthMax, head_dim) != head_dim) {
    keys.refuse("attention.value_length", " differs from key_length");
  }
  return {query_heads, kv_heads, head_dim};
}

// YaRN: low frequencies are divided by the factor, high ones stay, those between are blended.
// Source    YaRN (Peng et al. 2023). llama.cpp's constants 32 and 1 for the two bounds, and a
//           magnitude without a divisor, hold for families without keys for them.
void add_yarn(PlanKeys& keys, const Family& family, std::uint32_t rotated, RopeConfig& rope) {
  const float factor = keys.positive_or("rope.scaling.factor", 1.0f);
  const std::uint32_t original = keys.count("rope.scaling.original_context_length", kContextMax);
  const auto own_or = [&](std::string_view key, float fallback) {
    return has_key(family, key) ? keys.positive_or(key, fallback) : fallback;
  };
  const float fast = own_or("rope.scaling.yarn_beta_fast", 32.0f);
  const float slow = own_or("rope.scaling.yarn_beta_slow", 1.0f);
  constexpr std::string_view kDivisor = "rope.scaling.yarn_log_multiplier";
  const float divisor = has_key(family, kDivisor) ? keys.not_negative_or(kDivisor, 0.0f) : 0.0f;
  if (keys.error()) return;
  const double base = std::log(static_cast<double>(rope.theta));
  // The frequency that turns `turns` times in the original context.
  const auto at = [&](double turns) {
    return rotated * std::log(original / (turns * 2.0 * std::numbers::pi)) / (2.0 * base);
  };
  const double low = std::max(0.0, std::floor(at(fast)));
  const double high = std::min(rotated - 1.0, std::ceil(at(slow)));
  rope.frequency_divisors.resize(rotated / 2);
  for (std::uint32_t i = 0; i < rotated / 2; ++i) {
    const double kept = 1.0 - std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
    rope.frequency_divisors[i] = static_cast<float>(1.0 / ((1.0 - kept) / factor + kept));
  }
  const float growth = 0.1f * std::log(factor);
  rope.magnitude *= (1.0f + growth) / (1.0f + divisor * std::max(growth, 0.0f));
}

// In old files a factor without a type means linear scaling; 0 means none.
void add_linear(PlanKeys& keys, std::uint32_t rotated, RopeConfig& rope) {
  const float old_factor = keys.number_or("rope.scale_linear", 1.0f);
  const float factor = keys.number_or("rope.scaling.factor", old_factor);
  if (factor < 0.0f) {
    keys.fail(bad_file(keys.full("rope.scaling.factor") + " is not a finite positive number"));
  }
  if (factor == 0.0f || factor == 1.0f) return;
  rope.frequency_divisors.assign(rotated / 2, factor);
}

RopeConfig read_rope(PlanKeys& keys, const Family& family, std::uint32_t head_dim) {
  RopeConfig rope{.style = family.rope_style};
  rope.theta = keys.number_or("rope.freq_base", 10000.0f);
  if (!(rope.theta > 1.0f)) {
    keys.fail(bad_file(keys.full("rope.freq_base") + " is not a finite number above 1"));
    rope.theta = 2.0f;
  }
  rope.rotated = keys.count_or("rope.dimension_count", kWidthMax, head_dim);
  if (rope.rotated > head_dim || rope.rotated % 2 != 0) {
    keys.refuse("rope.dimension_count", " is " + std::to_string(rope.rotated) +
                                            "; it must be even and at most the head size " +
                                            std::to_string(head_dim));
    rope.rotated = head_dim;
  }
  rope.magnitude = keys.positive_or("rope.scaling.attn_factor", 1.0f);
  const std::string type = keys.text_or("rope.scaling.type", "linear");
  if (type == "linear") {
    add_linear(keys, rope.rotated, rope);
  } else if (type == "yarn") {
    add_yarn(keys, family, rope.rotated, rope);
  } else if (type != "none" && type != "longrope") {  // the last by stored factors
    keys.fail({Errc::unsupported, "rotary scaling '" + type +
                                      "' is not supported; linear, llama3, yarn and longrope are"});
  }
  return rope;
}

// Refuses keys of other computations, which some programs apply to any model: ignoring them would
// give wrong answers.
class OtherKeys {
 public:
  OtherKeys(PlanKeys& keys, const Family& family) : keys_(keys), family_(family) {}

  void refuse(const DecoderConfig& config) {
    if (is_other("expert_count") && keys_.size_or("expert_count", 0) > 0) {
      keys_.fail({Errc::unsupported, "mixtures of experts are not supported in " + plain()});
    }
    refuse_windows(config.context_length);
    if (is_other("attention.causal") && !keys_.flag_or("attention.causal", true)) {
      keys_.refuse("attention.causal", " is false: bidirectional attention is not supported");
    }
    const float scale = 1.0f / std::sqrt(static_cast<float>(config.layer.heads.head_dim));
    for (const auto& [name, neutral] :
         {std::pair("attn_logit_softcapping", 0.0f), std::pair("final_logit_softcapping", 0.0f),
          std::pair("logit_scale", 1.0f), std::pair("embedding_scale", 1.0f),
          std::pair("residual_scale", 1.0f), std::pair("attention.scale", scale),
          std::pair("attention.temperature_scale", 0.0f)}) {
      refuse_factor(name, neutral);
    }
  }

 private:
  std::string plain() const { return "a plain " + std::string(family_.architecture) + " model"; }
  bool is_other(std::string_view key) const { return keys_.has(key) && !has_key(family_, key); }
  void refuse_windows(std::uint32_t context_length) {
    constexpr std::string_view kWindow = "attention.sliding_window";
    constexpr std::string_view kPattern = "attention.sliding_window_pattern";
    if (is_other(kWindow)) {
      const std::uint32_t window = keys_.size_or(kWindow, 0);
      // A window at least as long as the context has no effect.
      if (window > 0 && window < context_length) {
        keys_.refuse(kWindow, " is " + std::to_string(window) + ", the context length " +
                                  std::to_string(context_length) +
                                  ": sliding-window attention is not supported in " + plain());
      }
    }
    if (is_other(kPattern)) {
      keys_.refuse(kPattern,
                   ": layers that differ in their attention are not supported in " + plain());
    }
  }
  // 0 means none.
  void refuse_factor(std::string_view key, float neutral) {
    constexpr float kRounding = 1e-5f;  // some files round a root to a few decimals
    if (!is_other(key)) return;
    const float factor = keys_.number(key);
    if (factor != 0.0f && !(std::abs(factor - neutral) <= kRounding * neutral)) {
      keys_.refuse(key, " is " + std::to_string(factor) + ", which " + plain() + " does not have");
    }
  }

  PlanKeys& keys_;
  const Family& family_;
};

}  // namespace

Result<DecoderConfig> read_plan(const GgufKeys& file, const Family& family) {
  PlanKeys keys(file, family.architecture);
  DecoderConfig config;
  config.architecture = family.architecture;
  config.layer_count = keys.count("block_count", kLayerCountMax);
  config.context_length = keys.count("context_length", kContextMax);
  const std::uint32_t dim = keys.count("embedding_length", kWidthMax);
  std::uint32_t ffn_dim = 0;
  if (!has_key(family, "expert_count") || keys.has("feed_forward_length")) {
    ffn_dim = shared_count(keys, family, "feed_forward_length", config.layer_count);
  }
  const float epsilon = keys.number("attention.layer_norm_rms_epsilon");
  if (!(epsilon >= 0.0f && epsilon < 1.0f)) keys.fail(bad_file("invalid layer_norm_rms_epsilon"));
  const HeadShape heads = read_heads(keys, family, dim, config.layer_count);
  if (keys.error()) return *keys.error();
  config.layer = {.dim = dim, .heads = heads, .ffn_dim = ffn_dim, .rms_epsilon = epsilon};
  config.rope = read_rope(keys, family, heads.head_dim);
  OtherKeys(keys, family).refuse(config);
  if (keys.error()) return *keys.error();
  if (family.plan != nullptr) family.plan(keys, config);
  if (keys.error()) return *keys.error();
  if (config.kv_cols().empty()) {
    return Error{Errc::unsupported, "no layer attends; a model needs one whose keys are cached"};
  }
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    const LayerPlan plan = config.plan(i);
    if (plan.mixer != Mixer::attention) continue;
    if (auto checked = check_heads(plan.shape.heads, keys.full("attention"), kHeadDimMax);
        !checked) {
      return checked.error();
    }
  }
  return config;
}

}  // namespace edgedraft
