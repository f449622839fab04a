// Softmax attention of HEADS query heads that share keys and values, for ROWS rows of q, by one
// workgroup. A row's visible slots are taken 64 at a time in slot order: a lane each for the scores,
// then a lane for every 64th number of the outputs, which adds the slots' values one after another.
// Steps within the prefix, which every row sees, read keys and values once for all rows. A running
// maximum keeps e^score finite. What is added when depends on a slot's place among the visible ones
// alone, so a path through a tree gives the bits that the same tokens give in a row.
//
// Include after bindings q, k, v and y, push constants p, and
//   uint visible(uint row, uint i)    the i-th slot behind the prefix that a row of q sees

layout(constant_id = 0) const uint HEADS = 1;  // at most kAttentionHeadsMax
layout(constant_id = 1) const uint ROWS = 1;   // at most kAttentionRowsMax
layout(constant_id = 2) const uint HEAD_DIM = 64;

const uint kPairs = ROWS * HEADS;  // row by row
const uint kNumbers = (HEAD_DIM + kAttentionWorkgroup - 1) / kAttentionWorkgroup;  // of a lane

shared float query[kPairs * HEAD_DIM];
shared float weights[kPairs * kAttentionWorkgroup];
shared float part_largest[kPairs * kAttentionParts];
shared uint slots[ROWS * kAttentionWorkgroup];

// Rows first_row.. of q, `row_count` of the tile's. Row r sees slots base..base + prefix - 1 and
// `behind[r]` behind these.
void attend(uint first_row, uint row_count, uint first_head, uint base, uint prefix,
            uint behind[ROWS]) {
  uint lane = gl_LocalInvocationID.x;
  uint column = first_head / p.group * HEAD_DIM;
  uint totals[ROWS];
  uint most = 0;
  for (uint r = 0; r < ROWS; ++r) {
    // A tile at the end takes its last row again.
    uint at = p.q_offset + (first_row + min(r, row_count - 1)) * p.q_stride + first_head * HEAD_DIM;
    for (uint i = lane; i < HEADS * HEAD_DIM; i += kAttentionWorkgroup) {
      query[r * HEADS * HEAD_DIM + i] = q[at + i];
    }
    totals[r] = r < row_count ? prefix + behind[r] : 0;
    most = max(most, totals[r]);
  }
  float largest[kPairs];
  precise float weight_sums[kPairs];  // of this lane's slots
  precise float sums[kPairs * kNumbers];
  for (uint n = 0; n < kPairs; ++n) {
    largest[n] = kLowest;
    weight_sums[n] = 0.0;
  }
  for (uint n = 0; n < kPairs * kNumbers; ++n) sums[n] = 0.0;

  for (uint first = 0; first < most; first += kAttentionWorkgroup) {
    bool is_shared = first + kAttentionWorkgroup <= prefix;
    barrier();  // the query is there; the step before has been read
    precise float scores[kPairs];
    for (uint n = 0; n < kPairs; ++n) scores[n] = 0.0;
    if (is_shared) {
      uint from = p.k_offset + (base + first + lane) * p.k_stride + column;
      for (uint d = 0; d < HEAD_DIM; ++d) {
        float key = k[from + d];
        for (uint n = 0; n < kPairs; ++n) scores[n] = scores[n] + query[n * HEAD_DIM + d] * key;
      }
    } else {
      uint i = first + lane;
      for (uint r = 0; r < ROWS; ++r) {
        if (i >= totals[r]) continue;
        uint slot = base + (i < prefix ? i : prefix + visible(first_row + r, i - prefix));
        slots[r * kAttentionWorkgroup + lane] = slot;
        uint from = p.k_offset + slot * p.k_stride + column;
        for (uint d = 0; d < HEAD_DIM; ++d) {
          float key = k[from + d];
          for (uint h = 0; h < HEADS; ++h) {
            uint n = r * HEADS + h;
            scores[n] = scores[n] + query[n * HEAD_DIM + d] * key;
          }
        }
      }
    }
    for (uint n = 0; n < kPairs; ++n) {
      precise float score = scores[n] * p.scale;
      bool is_there = first + lane < totals[n / HEADS];
      weights[n * kAttentionWorkgroup + lane] = is_there ? score : kLowest;
    }
    barrier();
    for (uint i = lane; i < kPairs * kAttentionParts; i += kAttentionWorkgroup) {
      const uint size = kAttentionWorkgroup / kAttentionParts;
      float part = weights[i * size];
      for (uint j = 1; j < size; ++j) part = max(part, weights[i * size + j]);
      part_largest[i] = part;
    }
    barrier();
    float shrink[kPairs];
    for (uint n = 0; n < kPairs; ++n) {
      shrink[n] = 1.0;
      if (first >= totals[n / HEADS]) continue;  // this row has seen all of its slots
      float step_largest = largest[n];
      for (uint i = 0; i < kAttentionParts; ++i) {
        step_largest = max(step_largest, part_largest[n * kAttentionParts + i]);
      }
      uint own = n * kAttentionWorkgroup + lane;
      bool is_there = first + lane < totals[n / HEADS];
      weights[own] = is_there ? exact_exp(weights[own] - step_largest) : 0.0;
      shrink[n] = first == 0 ? 0.0 : exact_exp(largest[n] - step_largest);
      weight_sums[n] = weight_sums[n] * shrink[n] + weights[own];
      largest[n] = step_largest;
    }
    barrier();
    for (uint m = 0; m < kNumbers; ++m) {
      uint d = lane + m * kAttentionWorkgroup;
      if (d >= HEAD_DIM) continue;
      for (uint n = 0; n < kPairs; ++n) {
        sums[n * kNumbers + m] = sums[n * kNumbers + m] * shrink[n];
      }
      uint from = p.v_offset + column + d;
      if (is_shared) {
        for (uint i = 0; i < kAttentionWorkgroup; ++i) {
          float value = v[from + (base + first + i) * p.v_stride];
          for (uint n = 0; n < kPairs; ++n) {
            sums[n * kNumbers + m] =
                sums[n * kNumbers + m] + weights[n * kAttentionWorkgroup + i] * value;
          }
        }
        continue;
      }
      for (uint r = 0; r < ROWS; ++r) {
        uint count = min(max(totals[r], first) - first, kAttentionWorkgroup);
        for (uint i = 0; i < count; ++i) {
          float value = v[from + slots[r * kAttentionWorkgroup + i] * p.v_stride];
          for (uint h = 0; h < HEADS; ++h) {
            uint n = r * HEADS + h;
            sums[n * kNumbers + m] =
                sums[n * kNumbers + m] + weights[n * kAttentionWorkgroup + i] * value;
          }
        }
      }
    }
  }
  barrier();
  for (uint n = 0; n < kPairs; ++n) weights[n * kAttentionWorkgroup + lane] = weight_sums[n];
  for (uint half_count = kAttentionWorkgroup / 2; half_count > 0; half_count /= 2) {
    barrier();
    if (lane < half_count) {
      for (uint n = 0; n < kPairs; ++n) {
        uint at = n * kAttentionWorkgroup + lane;
        precise float both = weights[at] + weights[at + half_count];
        weights[at] = both;
      }
    }
  }
  barrier();
  for (uint n = 0; n < kPairs; ++n) {
    if (n / HEADS >= row_count) continue;
    uint to = p.y_offset + (first_row + n / HEADS) * p.y_stride + (first_head + n % HEADS) * HEAD_DIM;
    for (uint m = 0; m < kNumbers; ++m) {
      uint d = lane + m * kAttentionWorkgroup;
      if (d < HEAD_DIM) {
        precise float mean = sums[n * kNumbers + m] / weights[n * kAttentionWorkgroup];
        y[to + d] = mean;
      }
    }
  }
}
