// Slots after the prefix that a row sees, one bit each, and slots before its window. Include after
// push constants p with masks_at and begins_at.

uint hidden_slots(uint row) { return p.begins_at == 0 ? 0 : call[p.begins_at + row]; }

uint mask_word(uint row, uint word) { return call[p.masks_at + row * kMaskWords + word]; }

// Their count.
uint seen_behind(uint row) {
  if (p.masks_at == 0) return 0;
  uint count = 0;
  for (uint word = 0; word < kMaskWords; ++word) count += bitCount(mask_word(row, word));
  return count;
}

// The i-th of them.
uint visible(uint row, uint i) {
  uint word = 0;
  uint bits = mask_word(row, 0);
  while (i >= bitCount(bits)) {
    i -= bitCount(bits);
    bits = mask_word(row, ++word);
  }
  for (; i > 0; --i) bits &= bits - 1;
  return word * 32 + findLSB(bits);
}
