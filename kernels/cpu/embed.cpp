#include "kernels/cpu/weights.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

template <class W>
void decode_rows(const EmbedArgs& a, const Work& work) {
  for (std::size_t i = work.begin; i < work.end; ++i) {
    decode<W>(a.table + a.tokens[i] * W::row_bytes(a.cols), 0, a.cols, a.y.data + i * a.y.stride);
  }
}

}  // namespace

void embed(const EmbedArgs& a, const Work& work) {
  switch (a.type) {
    case DType::f32:
      return decode_rows<F32>(a, work);
    case DType::f16:
      return decode_rows<F16>(a, work);
    case DType::bf16:
      return decode_rows<BF16>(a, work);
    case DType::q8_0:
      return decode_rows<Q8_0>(a, work);
    case DType::q4_0:
      return decode_rows<Q4_0>(a, work);
    case DType::q4_1:
      return decode_rows<Q4_1>(a, work);
    case DType::q5_0:
      return decode_rows<Q5_0>(a, work);
    case DType::q5_1:
      return decode_rows<Q5_1>(a, work);
    case DType::q4_k:
      return decode_rows<Q4_K>(a, work);
    case DType::q5_k:
      return decode_rows<Q5_K>(a, work);
    case DType::q6_k:
      return decode_rows<Q6_K>(a, work);
    default:
      break;  // decoded by the backend
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
