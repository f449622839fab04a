// Choosing the largest numbers: ties go to the lowest token, NaN counts as the smallest number.

struct Candidate {
  float value;
  uint token;  // kNoToken: none
};

float comparable(float x) { return is_nan(x) ? -kInfinity : x; }

bool better(Candidate a, Candidate b) {
  if (a.token == kNoToken) return false;
  if (b.token == kNoToken) return true;
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}
