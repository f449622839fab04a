#include "shared/model/families/plan_keys.h"

#include <cmath>
#include <utility>

#include "shared/model/tensor_shapes.h"

namespace edgedraft {

void PlanKeys::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

void PlanKeys::refuse(std::string_view key, const std::string& why) {
  fail({Errc::unsupported, full(key) + why});
}

template <class T>
T PlanKeys::take(const Result<T>& value, T neutral) {
  if (value) return *value;
  fail(value.error());
  return neutral;
}

std::uint32_t PlanKeys::count(std::string_view key, std::uint32_t max) {
  return take(read_count(keys_, full(key), max), 1u);
}

std::uint32_t PlanKeys::count_or(std::string_view key, std::uint32_t max, std::uint32_t fallback) {
  return has(key) ? count(key, max) : fallback;
}

std::vector<std::uint32_t> PlanKeys::counts(std::string_view key, std::uint32_t layers,
                                            std::uint32_t max) {
  const GgufValue* const value = keys_.find_value(full(key));
  if (value == nullptr || value->type != GgufType::array) {
    return std::vector<std::uint32_t>(layers, count(key, max));
  }
  const auto list = keys_.get_i32s(full(key));
  std::vector<std::uint32_t> out;
  if (!list) {
    fail(list.error());
  } else if (list->size() < layers) {
    fail(bad_file(full(key) + " has " + std::to_string(list->size()) + " values for " +
                  std::to_string(layers) + " layers"));
  } else {
    for (std::uint32_t i = 0; i < layers; ++i) {
      const std::int32_t n = (*list)[i];
      if (n < 0 || static_cast<std::uint32_t>(n) > max) {
        fail(bad_file(full(key) + " has the value " + std::to_string(n)));
      }
      out.push_back(static_cast<std::uint32_t>(n));
    }
  }
  out.resize(layers, 1);
  return out;
}

std::vector<bool> PlanKeys::flags(std::string_view key, std::uint32_t layers) {
  if (!has(key)) return {};
  auto list = keys_.get_bools(full(key));
  if (!list) {
    fail(list.error());
    return std::vector<bool>(layers);
  }
  if (list->size() < layers) {
    fail(bad_file(full(key) + " has " + std::to_string(list->size()) + " values for " +
                  std::to_string(layers) + " layers"));
  }
  list->resize(layers);
  return std::move(*list);
}

std::uint32_t PlanKeys::size_or(std::string_view key, std::uint32_t fallback) {
  return take(keys_.get_u32_or(full(key), fallback), fallback);
}

bool PlanKeys::flag_or(std::string_view key, bool fallback) {
  return take(keys_.get_bool_or(full(key), fallback), fallback);
}

float PlanKeys::number(std::string_view key) {
  return take(keys_.get_f32(full(key)), 0.0f);
}

float PlanKeys::number_or(std::string_view key, float fallback) {
  const float number = take(keys_.get_f32_or(full(key), fallback), fallback);
  if (!std::isfinite(number)) fail(bad_file(full(key) + " is not a finite number"));
  return number;
}

float PlanKeys::not_negative_or(std::string_view key, float fallback) {
  const float number = number_or(key, fallback);
  if (number >= 0.0f) return number;
  fail(bad_file(full(key) + " is negative"));
  return 0.0f;
}

float PlanKeys::positive_or(std::string_view key, float fallback) {
  const float number = number_or(key, fallback);
  if (number > 0.0f) return number;
  fail(bad_file(full(key) + " is not a finite positive number"));
  return 1.0f;
}

std::string PlanKeys::text_or(std::string_view key, std::string_view fallback) {
  return std::string(take(keys_.get_string_or(full(key), fallback), fallback));
}

ExpertShape read_experts(PlanKeys& keys) {
  const ExpertShape shape{.count = keys.count("expert_count", kExpertsMax),
                          .used = keys.count("expert_used_count", kExpertsUsedMax),
                          .ffn_dim = keys.count("expert_feed_forward_length", kWidthMax)};
  if (shape.count < 2 || shape.used > shape.count) {
    keys.fail(bad_file(keys.full("expert_used_count") + " is " + std::to_string(shape.used) +
                       " of " + std::to_string(shape.count) + " experts"));
  }
  return shape;
}

}  // namespace edgedraft
