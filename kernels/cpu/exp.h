#pragma once

#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// e^x = 2^n e^r with |r| <= ln 2 / 2. Zero below -87, e^88 above 88; NaN stays NaN.
//
// The series to r^7 has an error of 5e-9; rounding makes it about 2 units in the last place.
EDGEDRAFT_INLINE Part exp_part(Part x) {
  const Part low = all_part(-87.0f);
  const Part high = all_part(88.0f);
  const Part clamped = x < low ? low : (x > high ? high : x);

  // Adding 1.5 * 2^23 leaves the nearest integer in the low mantissa bits.
  const Part magic = all_part(0x1.8p23f);
  const Part shifted = fma(clamped, all_part(1.44269504f), magic);
  const Part n = shifted - magic;
  // ln 2 in two parts; the first has few enough bits that n times it is exact.
  Part r = fma(n, all_part(-0.693359375f), clamped);
  r = fma(n, all_part(2.12194440e-4f), r);

  Part p = all_part(1.0f / 5040);
  p = fma(p, r, all_part(1.0f / 720));
  p = fma(p, r, all_part(1.0f / 120));
  p = fma(p, r, all_part(1.0f / 24));
  p = fma(p, r, all_part(1.0f / 6));
  p = fma(p, r, all_part(0.5f));
  p = fma(p, r, all_part(1.0f));
  p = fma(p, r, all_part(1.0f));

  const Part scaled = reinterpret_cast<Part>(reinterpret_cast<UintPart>(p) +
                                             (reinterpret_cast<UintPart>(shifted) << 23));
  // A NaN's bits would move into the exponent.
  return x != x ? x : (x < low ? Part{} : scaled);
}

EDGEDRAFT_INLINE Lanes exp(const Lanes& x) {
  Lanes v;
  for (std::size_t p = 0; p < kParts; ++p) v.part[p] = exp_part(x.part[p]);
  return v;
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
