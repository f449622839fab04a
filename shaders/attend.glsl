// Softmax attention of HEADS query heads that share keys and values, by one workgroup. Visible slots
// are taken 64 at a time in slot order: a lane each for the scores, then a lane for every 64th
// number of the outputs, which adds the slots' values one after another. A running maximum keeps
// e^score finite. What is added when depends on a slot's place among the visible ones alone, so a
// path through a tree gives the bits that the same tokens give in a row.
//
// Include after bindings q, k, v and y and push constants p.

layout(constant_id = 0) const uint HEADS = 1;  // at most kAttentionHeadsMax

const uint kNumbers = kHeadDimMax / kAttentionWorkgroup;  // of a head's output in a lane
const uint kParts = 8;  // of the slots of a step, whose largest scores are found first

shared float query[HEADS * kHeadDimMax];
shared float weights[HEADS * kAttentionWorkgroup];
shared float part_largest[HEADS * kParts];
shared uint rows[kAttentionWorkgroup];
shared uint visible[kMaskWords * 32];

// Slots base..base + prefix - 1, then base + prefix + visible[0], ..., `total` in all.
void attend(uint row, uint first_head, uint base, uint prefix, uint total) {
  uint lane = gl_LocalInvocationID.x;
  uint column = first_head / p.group * p.head_dim;
  for (uint i = lane; i < HEADS * p.head_dim; i += kAttentionWorkgroup) {
    query[i] = q[p.q_offset + row * p.q_stride + first_head * p.head_dim + i];
  }
  float largest[HEADS];
  precise float weight_sums[HEADS];  // of this lane's slots
  precise float sums[HEADS * kNumbers];
  for (uint h = 0; h < HEADS; ++h) {
    largest[h] = -kInfinity;
    weight_sums[h] = 0.0;
  }
  for (uint n = 0; n < HEADS * kNumbers; ++n) sums[n] = 0.0;

  for (uint first = 0; first < total; first += kAttentionWorkgroup) {
    uint count = min(kAttentionWorkgroup, total - first);
    barrier();  // the query is there; the step before has been read
    precise float scores[HEADS];
    for (uint h = 0; h < HEADS; ++h) scores[h] = 0.0;
    if (lane < count) {
      uint i = first + lane;
      uint slot = base + (i < prefix ? i : prefix + visible[i - prefix]);
      uint from = p.k_offset + slot * p.k_stride + column;
      for (uint d = 0; d < p.head_dim; ++d) {
        float key = k[from + d];
        for (uint h = 0; h < HEADS; ++h) {
          scores[h] = scores[h] + query[h * p.head_dim + d] * key;
        }
      }
      rows[lane] = slot;
    }
    for (uint h = 0; h < HEADS; ++h) {
      precise float score = scores[h] * p.scale;
      weights[h * kAttentionWorkgroup + lane] = lane < count ? score : -kInfinity;
    }
    barrier();
    for (uint i = lane; i < HEADS * kParts; i += kAttentionWorkgroup) {
      const uint size = kAttentionWorkgroup / kParts;
      float part = weights[i * size];
      for (uint j = 1; j < size; ++j) part = max(part, weights[i * size + j]);
      part_largest[i] = part;
    }
    barrier();
    float shrink[HEADS];
    for (uint h = 0; h < HEADS; ++h) {
      float step_largest = largest[h];
      for (uint i = 0; i < kParts; ++i) {
        step_largest = max(step_largest, part_largest[h * kParts + i]);
      }
      // 0 behind the last slot. Of the first step, e^-infinity is 0, and so are the sums.
      uint own = h * kAttentionWorkgroup + lane;
      weights[own] = exact_exp(weights[own] - step_largest);
      shrink[h] = exact_exp(largest[h] - step_largest);
      weight_sums[h] = weight_sums[h] * shrink[h] + weights[own];
      largest[h] = step_largest;
    }
    barrier();
    for (uint n = 0; n < kNumbers; ++n) {
      uint d = lane + n * kAttentionWorkgroup;
      if (d < p.head_dim) {
        for (uint h = 0; h < HEADS; ++h) {
          sums[h * kNumbers + n] = sums[h * kNumbers + n] * shrink[h];
        }
        for (uint i = 0; i < count; ++i) {
          float value = v[p.v_offset + rows[i] * p.v_stride + column + d];
          for (uint h = 0; h < HEADS; ++h) {
            sums[h * kNumbers + n] =
                sums[h * kNumbers + n] + weights[h * kAttentionWorkgroup + i] * value;
          }
        }
      }
    }
  }
  barrier();
  for (uint h = 0; h < HEADS; ++h) weights[h * kAttentionWorkgroup + lane] = weight_sums[h];
  for (uint half_count = kAttentionWorkgroup / 2; half_count > 0; half_count /= 2) {
    barrier();
    if (lane < half_count) {
      for (uint h = 0; h < HEADS; ++h) {
        uint at = h * kAttentionWorkgroup + lane;
        precise float both = weights[at] + weights[at + half_count];
        weights[at] = both;
      }
    }
  }
  barrier();
  for (uint h = 0; h < HEADS; ++h) {
    for (uint n = 0; n < kNumbers; ++n) {
      uint d = lane + n * kAttentionWorkgroup;
      if (d < p.head_dim) {
        precise float mean = sums[h * kNumbers + n] / weights[h * kAttentionWorkgroup];
        y[p.y_offset + row * p.y_stride + (first_head + h) * p.head_dim + d] = mean;
      }
    }
  }
}
