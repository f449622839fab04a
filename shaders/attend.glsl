// Softmax attention by one workgroup, for HEADS query heads that share keys and values and ROWS
// rows of q. The visible slots of a row or a split are processed 64 at a time in slot order. Scores
// take one lane per slot. Values take one lane per four output elements (two fours of wide heads)
// and every kGroups-th slot, which adds its slots' values in turn. Steps inside the prefix, which
// every row sees, read keys and values once for all rows. A running maximum keeps e^score finite.
// The order of additions depends only on a slot's rank among the visible ones. So a path through a
// tree gives the same bits as the same tokens in sequence.
//
// A row's window hides its first slots. Steps of hidden slots are skipped; steps stay aligned to
// the first slot, so bits do not depend on what the window hides.
//
// Include after int8.glsl, lanes.glsl, bindings q, k, k_vectors, k_words, v, v_vectors, v_words and
// y, push constants p, and
//   uint visible(uint row, uint i)    the i-th slot after the prefix that a row of q sees
//   float sink(uint head)             with SINKS: a score of the query head, without a value

layout(constant_id = 0) const uint HEADS = 1;  // at most kAttentionHeadsMax
layout(constant_id = 1) const uint ROWS = 1;   // at most kAttentionRowsMax
layout(constant_id = 2) const uint HEAD_DIM = 64;
// True if heads of keys and values are whole, aligned vectors; for int8, whole words.
layout(constant_id = 3) const bool VECTORS = false;
// True if y receives splits for combine; otherwise the results.
layout(constant_id = 4) const bool SPLITS = false;
// Type of keys and values. kTypeF16 (half_k, half_k_vectors, half_v and half_v_vectors) needs
// NARROW_STORAGE.
layout(constant_id = 5) const uint TYPE = kTypeF32;
layout(constant_id = 6) const bool SINKS = false;

const uint kEights = kAttentionWorkgroup / kNeighbours;
const uint kPairs = ROWS * HEADS;          // row-major
const uint kColumns = (HEAD_DIM + 3) / 4;  // columns of four elements, or two
// Columns per lane, a workgroup apart.
const uint kLaneColumns = (kColumns + kAttentionWorkgroup - 1) / kAttentionWorkgroup;
const uint kLaneSums = kPairs * kLaneColumns;
// Groups of lanes that share the slots of a step.
const uint kGroups = kLaneColumns > 1 ? 1 : kAttentionWorkgroup / kColumns;

shared vec4 query[kPairs * kColumns];
shared float weights[kPairs * kAttentionWorkgroup];
shared float eights[kPairs * kEights];  // per eight neighbours
shared float totals[kPairs];            // sums of weights, at the end
shared uint slots[ROWS * kAttentionWorkgroup];

bool is_cut(uint column) { return HEAD_DIM % 4 != 0 && column + 1 == kColumns; }

vec4 four_of_q(uint head, uint column) {
  uint at = head + 4 * column;
  if (is_cut(column)) return vec4(q[at], q[at + 1], 0.0, 0.0);
  return vec4(q[at], q[at + 1], q[at + 2], q[at + 3]);
}

// Returns four elements from `at` on, with zeros after the head's last.
#define RETURN_FOUR(all, vectors, at, column)                      \
  if (VECTORS) return vec4(vectors[at >> 2]);                      \
  if (is_cut(column)) return vec4(all[at], all[at + 1], 0.0, 0.0); \
  return vec4(all[at], all[at + 1], all[at + 2], all[at + 3])
#ifdef NARROW_STORAGE
#define RETURN_FOUR_IF_F16(all, vectors, at, column) \
  if (TYPE == kTypeF16) { RETURN_FOUR(all, vectors, at, column); }
#else
#define RETURN_FOUR_IF_F16(all, vectors, at, column)
#endif
// Returns the four int8 elements of the row from `i` on, times their scales.
#define RETURN_FOUR_IF_I8(words, row, i, column)                              \
  if (TYPE == kTypeI8) {                                                      \
    if (VECTORS) return INT8_FOUR_AT(words, row, i);                          \
    vec2 two = vec2(INT8_AT(words, row, i), INT8_AT(words, row, i + 1));      \
    if (is_cut(column)) return vec4(two, 0.0, 0.0);                           \
    return vec4(two, INT8_AT(words, row, i + 2), INT8_AT(words, row, i + 3)); \
  }

vec4 four_of_k(uint row, uint head, uint column) {
  uint i = head + 4 * column;
  RETURN_FOUR_IF_I8(k_words, row, i, column)
  uint at = row + i;
  RETURN_FOUR_IF_F16(half_k, half_k_vectors, at, column)
  RETURN_FOUR(k, k_vectors, at, column);
}
vec4 four_of_v(uint row, uint head, uint column) {
  uint i = head + 4 * column;
  RETURN_FOUR_IF_I8(v_words, row, i, column)
  uint at = row + i;
  RETURN_FOUR_IF_F16(half_v, half_v_vectors, at, column)
  RETURN_FOUR(v, v_vectors, at, column);
}

// score + a . b, element by element.
float with_product(float score, vec4 a, vec4 b) {
  precise float sum = score + a.x * b.x;
  sum = sum + a.y * b.y;
  sum = sum + a.z * b.z;
  sum = sum + a.w * b.w;
  return sum;
}

// Adds the sums of lane groups and all lanes' weights, and writes sums or quotients.
void finish(uint first_row, uint row_count, uint first_head, uint split, float largest[kPairs],
            float weight_sums[kPairs], vec4 sums[kLaneSums]) {
  uint lane = lane_index();
  barrier();
#ifdef SUBGROUPS
  for (uint n = 0; n < kPairs; ++n) {
    float sum = sum_of_neighbours(weight_sums[n]);
    if (lane % kNeighbours == 0) eights[n * kEights + lane / kNeighbours] = sum;
  }
#else
  for (uint n = 0; n < kPairs; ++n) weights[n * kAttentionWorkgroup + lane] = weight_sums[n];
  barrier();
  for (uint i = lane; i < kPairs * kEights; i += kAttentionWorkgroup) {
    eights[i] = TREE_OF_EIGHT(weights, i * kNeighbours, 1);
  }
#endif
  barrier();
  if (lane < kPairs) {
    precise float total = eights[lane * kEights];
    for (uint i = 1; i < kEights; ++i) total = total + eights[lane * kEights + i];
    totals[lane] = total;
  }
  barrier();
  uint query_heads = gl_NumWorkGroups.x * HEADS;
  uint sums_at = 2 * p.rows * query_heads * p.splits;
  if (SPLITS && lane == 0) {
    for (uint n = 0; n < kPairs; ++n) {
      if (n / HEADS >= row_count) continue;
      uint head = (first_row + n / HEADS) * query_heads + first_head + n % HEADS;
      y[2 * (head * p.splits + split)] = largest[n];
      y[2 * (head * p.splits + split) + 1] = totals[n];
    }
  }
  for (uint step = 0; step < 4 * kLaneColumns; ++step) {
    uint e = step % 4;
    uint first_column = step / 4 * kAttentionWorkgroup;
    uint columns = min(kColumns - first_column, kAttentionWorkgroup);
    barrier();
    for (uint n = 0; n < kPairs; ++n) {
      weights[n * kAttentionWorkgroup + lane] = sums[n * kLaneColumns + step / 4][e];
    }
    barrier();
    for (uint i = lane; i < kPairs * columns; i += kAttentionWorkgroup) {
      uint n = i / columns;
      uint d = (first_column + i % columns) * 4 + e;
      if (n / HEADS >= row_count || d >= HEAD_DIM) continue;
      precise float sum = weights[n * kAttentionWorkgroup + i % columns];
      for (uint g = 1; g < kGroups; ++g) {
        sum = sum + weights[n * kAttentionWorkgroup + g * kColumns + i % columns];
      }
      uint row = first_row + n / HEADS;
      uint head = first_head + n % HEADS;
      if (SPLITS) {
        y[sums_at + ((row * query_heads + head) * p.splits + split) * HEAD_DIM + d] = sum;
      } else {
        precise float weight = totals[n];
        if (SINKS) {
          float both = max(largest[n], sink(head));
          float share = exact_exp(largest[n] - both);
          weight = weight * share;
          weight = weight + exact_exp(sink(head) - both);
          sum = sum * share;
        }
        precise float mean = sum / weight;
        y[p.y_offset + row * p.y_stride + head * HEAD_DIM + d] = mean;
      }
    }
  }
}

// Rows first_row.. of q, `row_count` of the tile's. Row r sees slots base..base + prefix - 1 and
// `behind[r]` slots after them, without the first `hidden[r]` of them all. Of all, `count` from
// `begin` on are processed.
void attend(uint first_row, uint row_count, uint first_head, uint base, uint prefix,
            uint behind[ROWS], uint hidden[ROWS], uint split, uint begin, uint count) {
  uint lane = lane_index();
  uint head_at = first_head / p.group * HEAD_DIM;
  uint begins[ROWS];
  uint ends[ROWS];
  uint least = begin + count;
  uint last_begin = begin;  // from here on, windows hide nothing
  uint most = 0;
  for (uint r = 0; r < ROWS; ++r) {
    begins[r] = r < row_count ? max(begin, hidden[r]) : 0;
    ends[r] = r < row_count ? min(prefix + behind[r], begin + count) : 0;
    if (r < row_count) least = min(least, begins[r]);
    last_begin = max(last_begin, begins[r]);
    most = max(most, ends[r]);
  }
  if (most <= least) return;  // no row sees any of these
  uint first_step = begin + (least - begin) / kAttentionWorkgroup * kAttentionWorkgroup;
  for (uint i = lane; i < kPairs * kColumns; i += kAttentionWorkgroup) {
    uint n = i / kColumns;
    // An incomplete tile repeats its last row.
    uint row = first_row + min(n / HEADS, row_count - 1);
    uint head = p.q_offset + row * p.q_stride + (first_head + n % HEADS) * HEAD_DIM;
    query[i] = four_of_q(head, i % kColumns);
  }
  float largest[kPairs];
  precise float weight_sums[kPairs];  // over this lane's slots
  precise vec4 sums[kLaneSums];       // for this lane's columns and its group's slots
  for (uint n = 0; n < kPairs; ++n) {
    largest[n] = kLowest;
    weight_sums[n] = 0.0;
  }
  for (uint n = 0; n < kLaneSums; ++n) sums[n] = vec4(0.0);
  uint column = lane % kColumns;
  uint group = lane / kColumns;

  for (uint first = first_step; first < most; first += kAttentionWorkgroup) {
    bool is_shared = first + kAttentionWorkgroup <= prefix && first >= last_begin;
    barrier();  // the query is loaded; the previous step has been read
    precise float scores[kPairs];
    for (uint n = 0; n < kPairs; ++n) scores[n] = 0.0;
    if (is_shared) {
      uint row = p.k_offset + (base + first + lane) * p.k_stride;
      for (uint c = 0; c < kColumns; ++c) {
        vec4 key = four_of_k(row, head_at, c);
        for (uint n = 0; n < kPairs; ++n) {
          scores[n] = with_product(scores[n], query[n * kColumns + c], key);
        }
      }
    } else {
      uint i = first + lane;
      for (uint r = 0; r < ROWS; ++r) {
        if (i < begins[r] || i >= ends[r]) continue;
        uint slot = base + (i < prefix ? i : prefix + visible(first_row + r, i - prefix));
        slots[r * kAttentionWorkgroup + lane] = slot;
        uint row = p.k_offset + slot * p.k_stride;
        for (uint c = 0; c < kColumns; ++c) {
          vec4 key = four_of_k(row, head_at, c);
          for (uint h = 0; h < HEADS; ++h) {
            uint n = r * HEADS + h;
            scores[n] = with_product(scores[n], query[n * kColumns + c], key);
          }
        }
      }
    }
    for (uint n = 0; n < kPairs; ++n) {
      precise float score = scores[n] * p.scale;
      bool is_there = first + lane >= begins[n / HEADS] && first + lane < ends[n / HEADS];
      scores[n] = is_there ? score : kLowest;
    }
#ifdef SUBGROUPS
    for (uint n = 0; n < kPairs; ++n) {
      float eight = max_of_neighbours(scores[n]);
      if (lane % kNeighbours == 0) eights[n * kEights + lane / kNeighbours] = eight;
    }
#else
    for (uint n = 0; n < kPairs; ++n) weights[n * kAttentionWorkgroup + lane] = scores[n];
    barrier();
    for (uint i = lane; i < kPairs * kEights; i += kAttentionWorkgroup) {
      float eight = weights[i * kNeighbours];
      for (uint j = 1; j < kNeighbours; ++j) eight = max(eight, weights[i * kNeighbours + j]);
      eights[i] = eight;
    }
#endif
    barrier();
    float shrink[kPairs];
    for (uint n = 0; n < kPairs; ++n) {
      shrink[n] = 1.0;
      uint row_begin = begins[n / HEADS];
      // This row has no slots left, or none yet.
      if (first >= ends[n / HEADS] || first + kAttentionWorkgroup <= row_begin) continue;
      float step_largest = largest[n];
      for (uint i = 0; i < kEights; ++i) step_largest = max(step_largest, eights[n * kEights + i]);
      bool is_there = first + lane >= row_begin && first + lane < ends[n / HEADS];
      float weight = is_there ? exact_exp(scores[n] - step_largest) : 0.0;
      weights[n * kAttentionWorkgroup + lane] = weight;
      shrink[n] = first <= row_begin ? 0.0 : exact_exp(largest[n] - step_largest);
      weight_sums[n] = weight_sums[n] * shrink[n] + weight;
      largest[n] = step_largest;
    }
    barrier();
    if (group >= kGroups) continue;
    for (uint n = 0; n < kLaneSums; ++n) sums[n] = sums[n] * shrink[n / kLaneColumns];
    if (is_shared) {
      for (uint i = group; i < kAttentionWorkgroup; i += kGroups) {
        for (uint c = 0; c < kLaneColumns; ++c) {
          if (column + c * kAttentionWorkgroup >= kColumns) break;
          vec4 value = four_of_v(p.v_offset + (base + first + i) * p.v_stride, head_at,
                                 column + c * kAttentionWorkgroup);
          for (uint n = 0; n < kPairs; ++n) {
            uint at = n * kLaneColumns + c;
            sums[at] = sums[at] + weights[n * kAttentionWorkgroup + i] * value;
          }
        }
      }
      continue;
    }
    for (uint r = 0; r < ROWS; ++r) {
      uint there = min(max(ends[r], first) - first, kAttentionWorkgroup);
      for (uint i = group; i < there; i += kGroups) {
        if (first + i < begins[r]) continue;
        for (uint c = 0; c < kLaneColumns; ++c) {
          if (column + c * kAttentionWorkgroup >= kColumns) break;
          vec4 value = four_of_v(p.v_offset + slots[r * kAttentionWorkgroup + i] * p.v_stride,
                                 head_at, column + c * kAttentionWorkgroup);
          for (uint h = 0; h < HEADS; ++h) {
            uint n = r * HEADS + h;
            uint at = n * kLaneColumns + c;
            sums[at] = sums[at] + weights[n * kAttentionWorkgroup + i] * value;
          }
        }
      }
    }
  }
  finish(first_row, row_count, first_head, split, largest, weight_sums, sums);
}
