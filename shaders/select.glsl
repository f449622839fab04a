// Selection of the largest values: ties go to the lowest token, NaN sorts lowest.

// Bits that order like their values, infinities included; NaN as -infinity, -0 as 0. Not compared
// as floats: see kLowest.
uint ordered(float x) {
  uint bits = is_nan(x) ? 0xFF800000u : floatBitsToUint(x);
  if ((bits & 0x7FFFFFFFu) == 0) bits = 0;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// A value as ordered bits, since selection compares it repeatedly. "None" sorts below all values,
// whose ordered bits are above 0.
struct Candidate {
  uint order;
  uint token;  // kNoToken: none
};
const Candidate kNone = Candidate(0, kNoToken);

Candidate candidate(float x, uint token) {
  return token == kNoToken ? kNone : Candidate(ordered(x), token);
}

// The value's bits; -infinity for NaN, 0 for -0, and 0 for none.
uint bits_of(Candidate c) {
  if (c.token == kNoToken) return 0;
  return (c.order & 0x80000000u) != 0 ? c.order ^ 0x80000000u : ~c.order;
}

bool better(Candidate a, Candidate b) {
  return a.order > b.order || (a.order == b.order && a.token < b.token);
}

#ifdef SUBGROUPS
// The best candidate of eight neighbours (lanes.glsl).
Candidate best_of_neighbours(Candidate own) {
  for (uint d = 1; d < kNeighbours; d *= 2) {
    Candidate other = Candidate(subgroupShuffleXor(own.order, d), subgroupShuffleXor(own.token, d));
    if (better(other, own)) own = other;
  }
  return own;
}
#endif
