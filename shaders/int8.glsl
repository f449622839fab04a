// Keys and values in int8 (kCacheTypes in shared/tensor/element_type.h), read and written as words:
// per block of 32 elements, the bits of its float32 scale, then four elements per word. Their
// offsets and strides count words.

const uint kInt8Block = 32;
const uint kInt8BlockWords = 9;

// First word of the block with element i of a row.
uint int8_block(uint row, uint i) { return row + i / kInt8Block * kInt8BlockWords; }

float int8_number(uint word, uint i, uint scale_bits) {
  precise float number =
      float(bitfieldExtract(int(word), int(i % 4 * 8), 8)) * uintBitsToFloat(scale_bits);
  return number;
}

// Element i of the row at word `row` of a buffer of words.
#define INT8_AT(words, row, i) \
  int8_number(words[int8_block(row, i) + 1 + (i) % kInt8Block / 4], i, words[int8_block(row, i)])
// Elements i to i + 3, i a multiple of four.
#define INT8_FOUR_AT(words, row, i) \
  int8_four(words[int8_block(row, i) + 1 + (i) % kInt8Block / 4], words[int8_block(row, i)])
vec4 int8_four(uint word, uint scale_bits) {
  return vec4(int8_number(word, 0, scale_bits), int8_number(word, 1, scale_bits),
              int8_number(word, 2, scale_bits), int8_number(word, 3, scale_bits));
}
