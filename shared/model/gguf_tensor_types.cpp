#include "shared/model/gguf_tensor_types.h"

#include <iterator>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

// ggml's numbers, readable types first.
constexpr GgufTensorType kTypes[] = {
    {0, "F32", DType::f32},
    {1, "F16", DType::f16},
    {30, "BF16", DType::bf16},
    {8, "Q8_0", DType::q8_0},
    {2, "Q4_0", DType::q4_0},
    {3, "Q4_1", DType::q4_1},
    {6, "Q5_0", DType::q5_0},
    {7, "Q5_1", DType::q5_1},
    {10, "Q2_K", DType::q2_k},
    {11, "Q3_K", DType::q3_k},
    {12, "Q4_K", DType::q4_k},
    {13, "Q5_K", DType::q5_k},
    {14, "Q6_K", DType::q6_k},
    {20, "IQ4_NL", DType::iq4_nl},
    {23, "IQ4_XS", DType::iq4_xs},
    {21, "IQ3_S", DType::iq3_s},
    {18, "IQ3_XXS", DType::iq3_xxs},
    {22, "IQ2_S", DType::iq2_s},
    {17, "IQ2_XS", DType::iq2_xs},
    {16, "IQ2_XXS", DType::iq2_xxs},
    {39, "MXFP4", DType::mxfp4},
    {9, "Q8_1", {}},
    {15, "Q8_K", {}},
    {19, "IQ1_S", {}},
    {24, "I8", {}},
    {25, "I16", {}},
    {26, "I32", {}},
    {27, "I64", {}},
    {28, "F64", {}},
    {29, "IQ1_M", {}},
    {31, "Q4_0_4_4", {}},
    {32, "Q4_0_4_8", {}},
    {33, "Q4_0_8_8", {}},
    {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},
    {40, "NVFP4", {}},
};

}  // namespace

const GgufTensorType* find_gguf_tensor_type(std::uint32_t number) {
  for (const GgufTensorType& known : kTypes) {
    if (known.number == number) return &known;
  }
  return nullptr;
}

std::string readable_gguf_types() {
  std::string names;
  for (const GgufTensorType& known : kTypes) {
    if (!known.type) continue;
    const bool is_last = &known == &kTypes[std::size(kDTypes) - 1];
    if (!names.empty()) names += is_last ? " or " : ", ";
    names += known.name;
  }
  return names;
}

std::uint32_t gguf_type_number(DType type) {
  for (const GgufTensorType& known : kTypes) {
    if (known.type == type) return known.number;
  }
  check_failed("a type without a number", BOOST_CURRENT_LOCATION);
}

}  // namespace edgedraft
