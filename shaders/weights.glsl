// Weights in file format (shared/tensor/blocks.h), coded types in coded layout (coded_blocks.h),
// decoded one element at a time. Include after defining WEIGHT_WORDS, the array of uint that holds
// them, and with NARROW_STORAGE WEIGHT_BYTES, WEIGHT_SHORTS and WEIGHT_HALVES, views of 8 and 16
// bits.

// Blocks start at even bytes, so 16 bits are in one word.
#ifdef NARROW_STORAGE
uint byte_at(uint at) { return uint(WEIGHT_BYTES[at]); }
uint half_bits_at(uint at) { return uint(WEIGHT_SHORTS[at >> 1]); }
float half_at(uint at) { return float(WEIGHT_HALVES[at >> 1]); }
#else
uint byte_at(uint at) { return (WEIGHT_WORDS[at >> 2] >> ((at & 3) * 8)) & 0xFFu; }
uint half_bits_at(uint at) { return (WEIGHT_WORDS[at >> 2] >> ((at & 2) * 8)) & 0xFFFFu; }
float half_at(uint at) { return unpackHalf2x16(half_bits_at(at)).x; }
#endif

int signed_byte(uint b) { return int(b << 24) >> 24; }

// Element i of a block of 32, of four bits or of five, whose fifth bits precede the others.
uint small_four(uint fours, uint i) {
  uint q = byte_at(fours + i % 16);
  return i < 16 ? q & 15u : q >> 4;
}
uint small_five(uint fifths, uint i) {
  return small_four(fifths + 4, i) | ((byte_at(fifths + i / 8) >> (i % 8)) & 1u) << 4;
}
// Applies the scale and offset at the start of q4_1 and q5_1.
float on_line(uint block, uint q) {
  precise float product = half_at(block) * float(q);
  precise float x = product + half_at(block + 2);
  return x;
}

// Scale (x) and minimum (y) of group 0..7 in the 12 bytes of q4_k and q5_k.
uvec2 packed_group(uint at, uint group) {
  if (group < 4) return uvec2(byte_at(at + group) & 63u, byte_at(at + group + 4) & 63u);
  return uvec2((byte_at(at + group + 4) & 15u) | ((byte_at(at + group - 4) >> 6) << 4),
               (byte_at(at + group + 4) >> 4) | ((byte_at(at + group) >> 6) << 4));
}

float q4_k_or_q5_k(uint block, uint i, bool has_fifth) {
  uint group = i / 32;
  uvec2 g = packed_group(block + 4, group);
  uint fours = block + 16 + (has_fifth ? 32 : 0);
  uint q = byte_at(fours + (group / 2) * 32 + i % 32);
  q = (group & 1) == 0 ? q & 15u : q >> 4;
  if (has_fifth) q |= ((byte_at(block + 16 + i % 32) >> group) & 1u) << 4;
  precise float product = half_at(block) * float(g.x) * float(q);
  precise float minimum = half_at(block + 2) * float(g.y);
  precise float x = product - minimum;
  return x;
}

float q6_k(uint block, uint i) {
  uint part = i / 128;
  uint in_part = i % 128;
  uint low = byte_at(block + part * 64 + in_part % 64);
  low = in_part < 64 ? low & 15u : low >> 4;
  uint high = (byte_at(block + 128 + part * 32 + in_part % 32) >> (2 * (in_part / 32))) & 3u;
  float scale = float(signed_byte(byte_at(block + 192 + i / 16)));
  precise float x = half_at(block + 208) * scale * float(int(low | high << 4) - 32);
  return x;
}

float q2_k(uint block, uint i) {
  uint group = byte_at(block + i / 16);
  uint two = byte_at(block + 16 + (i / 128) * 32 + i % 32);
  two = (two >> (2 * ((i / 32) % 4))) & 3u;
  precise float product = half_at(block + 80) * float(group & 15u) * float(two);
  precise float minimum = half_at(block + 82) * float(group >> 4);
  precise float x = product - minimum;
  return x;
}

// Values of the lower eight codes of a coded type, times its unit; the upper eight of all but iq4
// and q3_k are their negatives.
const float kCodesIq4[16] =
    float[](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
const float kCodesIq3Xxs[8] = float[](1, 3, 5, 7, 9, 11, 13, 15.5);
const float kCodesIq2[8] = float[](1, 3.125, 5.375, 0, 0, 0, 0, 0);
const float kCodesMxfp4[8] = float[](0, 1, 2, 3, 4, 6, 8, 12);

float code_value(uint type, uint code) {
  uint low = code & 7u;
  float magnitude;
  switch (type) {
    case kTypeIq4Xs:
    case kTypeIq4Nl:
      return kCodesIq4[code];
    case kTypeQ3_K:
      return float(int(code) - 4);
    case kTypeIq3S:
      magnitude = float(2 * low + 1);
      break;
    case kTypeIq3Xxs:
      magnitude = kCodesIq3Xxs[low];
      break;
    case kTypeMxfp4:
      magnitude = kCodesMxfp4[low];
      break;
    default:
      magnitude = kCodesIq2[low];
  }
  return code < 8 || magnitude == 0.0 ? magnitude : -magnitude;
}

float coded(uint type, uint row, uint i) {
  if (type >= kTypeIq4Nl) {
    uint block = row + (i / 32) * 18;
    uint both = byte_at(block + 2 + i % 16);
    uint code = i % 32 < 16 ? both & 15u : both >> 4;
    float scale = type == kTypeMxfp4 ? uintBitsToFloat(half_bits_at(block) << 16) : half_at(block);
    precise float x = scale * code_value(type, code);
    return x;
  }
  uint block = row + (i / 256) * 146;
  uint j = i % 256;
  uint both = byte_at(block + 18 + (j / 32) * 16 + j % 16);
  uint code = j % 32 < 16 ? both & 15u : both >> 4;
  float scale = float(signed_byte(byte_at(block + 2 + j / 16)));
  precise float x = half_at(block) * scale * code_value(type, code);
  return x;
}

// Element i of the row that begins at byte `row`.
float element(uint type, uint row, uint i) {
  switch (type) {
    case kTypeF32:
      return uintBitsToFloat(WEIGHT_WORDS[(row >> 2) + i]);
    case kTypeF16:
      return half_at(row + 2 * i);
    case kTypeBf16:
      return uintBitsToFloat(half_bits_at(row + 2 * i) << 16);
    case kTypeQ8_0: {
      uint block = row + (i / 32) * 34;
      return half_at(block) * float(signed_byte(byte_at(block + 2 + i % 32)));
    }
    case kTypeQ4_0: {
      uint block = row + (i / 32) * 18;
      return half_at(block) * float(int(small_four(block + 2, i % 32)) - 8);
    }
    case kTypeQ4_1: {
      uint block = row + (i / 32) * 20;
      return on_line(block, small_four(block + 4, i % 32));
    }
    case kTypeQ5_0: {
      uint block = row + (i / 32) * 22;
      return half_at(block) * float(int(small_five(block + 2, i % 32)) - 16);
    }
    case kTypeQ5_1: {
      uint block = row + (i / 32) * 24;
      return on_line(block, small_five(block + 4, i % 32));
    }
    case kTypeQ4_K:
      return q4_k_or_q5_k(row + (i / 256) * 144, i % 256, false);
    case kTypeQ5_K:
      return q4_k_or_q5_k(row + (i / 256) * 176, i % 256, true);
    case kTypeQ6_K:
      return q6_k(row + (i / 256) * 210, i % 256);
    case kTypeQ2_K:
      return q2_k(row + (i / 256) * 84, i % 256);
    default:
      return coded(type, row, i);
  }
}
