#include "shared/model/gguf_tensor_types.h"

#include "shared/base/check.h"

namespace edgedraft {
namespace {

// ggml's numbers. A newly supported type gets its DType here.
constexpr GgufTensorType kTypes[] = {
    {0, "F32", DType::f32},    {1, "F16", DType::f16},    {2, "Q4_0", DType::q4_0},
    {3, "Q4_1", DType::q4_1},  {6, "Q5_0", DType::q5_0},  {7, "Q5_1", DType::q5_1},
    {8, "Q8_0", DType::q8_0},  {12, "Q4_K", DType::q4_k}, {13, "Q5_K", DType::q5_k},
    {14, "Q6_K", DType::q6_k}, {30, "BF16", DType::bf16}, {9, "Q8_1", {}},
    {10, "Q2_K", {}},          {11, "Q3_K", {}},          {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},       {17, "IQ2_XS", {}},        {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},         {20, "IQ4_NL", {}},        {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},         {23, "IQ4_XS", {}},        {24, "I8", {}},
    {25, "I16", {}},           {26, "I32", {}},           {27, "I64", {}},
    {28, "F64", {}},           {29, "IQ1_M", {}},         {31, "Q4_0_4_4", {}},
    {32, "Q4_0_4_8", {}},      {33, "Q4_0_8_8", {}},      {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},         {39, "MXFP4", {}},
};

}  // namespace

const GgufTensorType* find_gguf_tensor_type(std::uint32_t number) {
  for (const GgufTensorType& known : kTypes) {
    if (known.number == number) return &known;
  }
  return nullptr;
}

std::uint32_t gguf_type_number(DType type) {
  for (const GgufTensorType& known : kTypes) {
    if (known.type == type) return known.number;
  }
  check_failed("a type without a number", BOOST_CURRENT_LOCATION);
}

}  // namespace edgedraft
