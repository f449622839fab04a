// Choosing the largest numbers: ties go to the lowest token, NaN counts as the smallest number.

// Bits that are ordered as their numbers are, infinities included; NaN as -infinity, -0 as 0. Never
// compared as floats: see kLowest.
uint ordered(float x) {
  uint bits = is_nan(x) ? 0xFF800000u : floatBitsToUint(x);
  if ((bits & 0x7FFFFFFFu) == 0) bits = 0;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// A number by its place in that order, as choosing compares one again and again. None comes behind
// all numbers, whose places are above 0.
struct Candidate {
  uint order;
  uint token;  // kNoToken: none
};
const Candidate kNone = Candidate(0, kNoToken);

Candidate candidate(float x, uint token) {
  return token == kNoToken ? kNone : Candidate(ordered(x), token);
}

// The number's bits; those of NaN are -infinity's, of -0 those of 0, of none 0.
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
    Candidate other =
        Candidate(subgroupShuffleXor(own.order, d), subgroupShuffleXor(own.token, d));
    if (better(other, own)) own = other;
  }
  return own;
}
#endif
