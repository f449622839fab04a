#version 450
// A workgroup selects the k best of a row segment of 1024 elements, best first. Elements are logits
// in the first pass, and the segments' candidates in later passes, until one segment is left. A
// lane has every 64th element and offers its best; the lane whose offer is taken finds its next
// one.
//
// The first pass also writes each segment's largest logit and the sum of e^(logit - largest). The
// last pass combines them for the row, and the host computes log-softmax.
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "common.glsl"
#include "lanes.glsl"

layout(local_size_x = kTopKWorkgroup) in;
layout(constant_id = 0) const bool IS_FIRST = true;
layout(constant_id = 1) const bool IS_LAST = true;
layout(push_constant) uniform Push { TopKParams p; };
layout(std430, binding = 1) readonly buffer Logits { float logits[]; };
layout(std430, binding = 1) readonly buffer Chosen { uvec2 chosen[]; };  // value bits, token
layout(std430, binding = 2) writeonly buffer Y { uvec2 y[]; };
layout(std430, binding = 3) buffer Sums { vec2 sums[]; };  // largest, sum

#include "select.glsl"

const uint kOwn = kTopKSegment / kTopKWorkgroup;  // elements per lane
const uint kEights = kTopKWorkgroup / kNeighbours;

shared float values[kTopKSegment];
shared uint tokens[kTopKSegment];
#ifndef SUBGROUPS
shared Candidate offers[kTopKWorkgroup];
shared vec2 lane_sums[kTopKWorkgroup];
#endif
// One per eight neighbours. Double-buffered by place, so that lanes may be one place apart.
shared Candidate best_offers[2][kEights];
shared vec2 eight_sums[kEights];

// x; -infinity and all values ordered below kLowest become kLowest.
float shown(float x) { return ordered(x) <= ordered(kLowest) ? kLowest : x; }
// e^(x - largest), which is 0 for kLowest and NaN for NaN.
float share(float x, float largest) {
  return is_nan(x) ? x : shown(x) == kLowest ? 0.0 : exact_exp(x - largest);
}

// Combined (largest, sum of e^(x - largest)).
vec2 joined(vec2 a, vec2 b) {
  float largest = max(a.x, b.x);
  if (largest == kLowest) return vec2(largest, 0.0);
  precise float sum = a.y * share(a.x, largest) + b.y * share(b.x, largest);
  return vec2(largest, sum);
}

// Combines all lanes' pairs: neighbours, pairs of neighbours, fours, then the eights in order.
// Every lane must call it.
vec2 joined_lanes(vec2 own) {
  uint lane = lane_index();
#ifdef SUBGROUPS
  for (uint d = 1; d < kNeighbours; d *= 2) {
    vec2 other = subgroupShuffleXor(own, d);
    own = (lane & d) == 0 ? joined(own, other) : joined(other, own);
  }
  if (lane % kNeighbours == 0) eight_sums[lane / kNeighbours] = own;
#else
  lane_sums[lane] = own;
  for (uint d = 1; d < kNeighbours; d *= 2) {
    barrier();
    if (lane % (2 * d) == 0) lane_sums[lane] = joined(lane_sums[lane], lane_sums[lane + d]);
  }
  if (lane % kNeighbours == 0) eight_sums[lane / kNeighbours] = lane_sums[lane];
#endif
  barrier();
  vec2 all = eight_sums[0];
  for (uint i = 1; i < kEights; ++i) all = joined(all, eight_sums[i]);
  return all;
}

// The best of the lanes' offers for a place. Every lane must call it.
Candidate best_offer(Candidate offer, uint place) {
  uint lane = lane_index();
#ifdef SUBGROUPS
  Candidate eight = best_of_neighbours(offer);
  if (lane % kNeighbours == 0) best_offers[place % 2][lane / kNeighbours] = eight;
#else
  offers[lane] = offer;
  barrier();
  if (lane < kEights) {
    Candidate eight = offers[lane * kNeighbours];
    for (uint i = 1; i < kNeighbours; ++i) {
      if (better(offers[lane * kNeighbours + i], eight)) eight = offers[lane * kNeighbours + i];
    }
    best_offers[place % 2][lane] = eight;
  }
#endif
  barrier();
  Candidate best = best_offers[place % 2][0];
  for (uint i = 1; i < kEights; ++i) {
    if (better(best_offers[place % 2][i], best)) best = best_offers[place % 2][i];
  }
  return best;
}

void add_up(uint row, uint first, uint count) {
  uint lane = lane_index();
  if (IS_FIRST) {
    float largest = kLowest;
    for (uint i = lane; i < count; i += kTopKWorkgroup) largest = max(largest, shown(values[i]));
    precise float sum = 0.0;
    for (uint i = lane; i < count; i += kTopKWorkgroup) { sum = sum + share(values[i], largest); }
    vec2 segment = joined_lanes(vec2(largest, sum));
    if (lane != 0) return;
    if (IS_LAST) {
      sums[p.totals_offset + row] = segment;
    } else {
      sums[p.sums_offset + row * p.sums_stride + gl_WorkGroupID.x] = segment;
    }
  } else if (IS_LAST) {
    vec2 own = vec2(kLowest, 0.0);
    for (uint i = lane; i < p.sums_stride; i += kTopKWorkgroup) {
      own = joined(own, sums[p.sums_offset + row * p.sums_stride + i]);
    }
    vec2 total = joined_lanes(own);
    if (lane == 0) sums[p.totals_offset + row] = total;
  }
}

void main() {
  uint lane = lane_index();
  uint row = gl_WorkGroupID.y;
  uint first = gl_WorkGroupID.x * kTopKSegment;
  uint count = min(kTopKSegment, p.count - first);
  for (uint i = lane; i < count; i += kTopKWorkgroup) {
    uint at = p.x_offset + row * p.x_stride + first + i;
    values[i] = IS_FIRST ? logits[at] : uintBitsToFloat(chosen[at].x);
    tokens[i] = IS_FIRST ? first + i : chosen[at].y;
  }
  add_up(row, first, count);

  uint to = p.y_offset + row * p.y_stride + gl_WorkGroupID.x * p.k;
  uint taken = 0;  // bit n: element lane + 64 n
  bool is_stale = true;
  Candidate offer = kNone;
  for (uint place = 0; place < p.k; ++place) {
    if (is_stale) {
      offer = kNone;
      for (uint n = 0; n < kOwn; ++n) {
        uint i = lane + n * kTopKWorkgroup;
        if (i >= count || (taken >> n & 1u) != 0) continue;
        Candidate own = candidate(values[i], tokens[i]);
        if (better(own, offer)) offer = own;
      }
    }
    Candidate winner = best_offer(offer, place);
    if (lane == 0) y[to + place] = uvec2(bits_of(winner), winner.token);
    is_stale = winner.token != kNoToken && offer.token == winner.token;
    if (is_stale) {
      for (uint n = 0; n < kOwn; ++n) {
        uint i = lane + n * kTopKWorkgroup;
        if (i < count && tokens[i] == winner.token) taken |= 1u << n;
      }
    }
  }
}
