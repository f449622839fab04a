// Choosing the largest numbers: ties go to the lowest token, NaN counts as the smallest number.

struct Candidate {
  float value;
  uint token;  // kNoToken: none
};

// Bits that are ordered as their numbers are, infinities included; NaN as -infinity, -0 as 0. Never
// compared as floats: see kLowest.
uint ordered(float x) {
  uint bits = is_nan(x) ? 0xFF800000u : floatBitsToUint(x);
  if ((bits & 0x7FFFFFFFu) == 0) bits = 0;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

bool better(Candidate a, Candidate b) {
  if (a.token == kNoToken) return false;
  if (b.token == kNoToken) return true;
  uint of_a = ordered(a.value);
  uint of_b = ordered(b.value);
  return of_a > of_b || (of_a == of_b && a.token < b.token);
}

#ifdef SUBGROUPS
// The best candidate of eight neighbours (lanes.glsl).
Candidate best_of_neighbours(Candidate own) {
  for (uint d = 1; d < kNeighbours; d *= 2) {
    Candidate other =
        Candidate(subgroupShuffleXor(own.value, d), subgroupShuffleXor(own.token, d));
    if (better(other, own)) own = other;
  }
  return own;
}
#endif
