// Softmax attention of one query head by one workgroup. Visible slots are taken 64 at a time in slot
// order: a lane each for the scores, then a lane for every 64th number of the output, which adds the
// slots' values one after another. A running maximum keeps e^score finite. What is added when
// depends on a slot's place among the visible ones alone, so a path through a tree gives the bits
// that the same tokens give in a row.
//
// Include after bindings q, k, v and y and push constants p.

shared float query[kHeadDimMax];
shared float weights[kAttentionWorkgroup];
shared uint rows[kAttentionWorkgroup];
shared uint visible[kMaskWords * 32];

const uint kNumbers = kHeadDimMax / kAttentionWorkgroup;  // of the output in a lane

// Slots base..base + prefix - 1, then base + prefix + visible[0], ..., `total` in all.
void attend(uint row, uint head, uint base, uint prefix, uint total) {
  uint lane = gl_LocalInvocationID.x;
  uint column = head / p.group * p.head_dim;
  for (uint d = lane; d < p.head_dim; d += kAttentionWorkgroup) {
    query[d] = q[p.q_offset + row * p.q_stride + head * p.head_dim + d];
  }
  float largest = -kInfinity;
  precise float weight_sum = 0.0;
  precise float sums[kNumbers];
  for (uint n = 0; n < kNumbers; ++n) sums[n] = 0.0;

  for (uint first = 0; first < total; first += kAttentionWorkgroup) {
    uint count = min(kAttentionWorkgroup, total - first);
    barrier();  // the query is there; the step before has been read
    if (lane < count) {
      uint i = first + lane;
      uint slot = base + (i < prefix ? i : prefix + visible[i - prefix]);
      uint from = p.k_offset + slot * p.k_stride + column;
      precise float score = 0.0;
      for (uint d = 0; d < p.head_dim; ++d) score = score + query[d] * k[from + d];
      score = score * p.scale;
      weights[lane] = score;
      rows[lane] = slot;
    }
    barrier();
    float step_largest = largest;
    for (uint i = 0; i < count; ++i) step_largest = max(step_largest, weights[i]);
    float own = lane < count ? exact_exp(weights[lane] - step_largest) : 0.0;
    barrier();
    weights[lane] = own;
    barrier();
    // e^-infinity is 0 for the first step, whose sums are 0 too.
    float shrink = exact_exp(largest - step_largest);
    largest = step_largest;
    weight_sum = weight_sum * shrink;
    for (uint i = 0; i < count; ++i) weight_sum = weight_sum + weights[i];
    for (uint n = 0; n < kNumbers; ++n) {
      uint d = lane + n * kAttentionWorkgroup;
      if (d >= p.head_dim) break;
      precise float sum = sums[n] * shrink;
      for (uint i = 0; i < count; ++i) {
        sum = sum + weights[i] * v[p.v_offset + rows[i] * p.v_stride + column + d];
      }
      sums[n] = sum;
    }
  }
  for (uint n = 0; n < kNumbers; ++n) {
    uint d = lane + n * kAttentionWorkgroup;
    if (d >= p.head_dim) break;
    precise float mean = sums[n] / weight_sum;
    y[p.y_offset + row * p.y_stride + head * p.head_dim + d] = mean;
  }
}
