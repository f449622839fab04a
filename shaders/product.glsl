// Shared by matmul and int8_matmul: division of the work, the weight, and the reduction.
//
// A workgroup consists of groups of LANES; a group computes OUTPUTS outputs of ROWS rows. Its lanes
// share an output's inputs, so that they read the weight in whole cache lines, and once for all
// rows of the tile. Then lanes are added (lanes.glsl), in the end by one invocation per result. The
// order of a sum depends on the input count and on LANES, which is fixed per device. A row's bits
// are thus the same in every tile.

layout(local_size_x_id = 4) in;
layout(constant_id = 0) const uint TYPE = 0;
layout(constant_id = 1) const uint ROWS = 1;
layout(constant_id = 4) const uint WORKGROUP = 64;
layout(constant_id = 5) const uint LANES = 32;
layout(constant_id = 6) const uint OUTPUTS = 2;
// Experts per row; 0: an ordinary matmul. With experts, ROWS is 1, rows of y are pairs of a row and
// an expert, and the weight is a part of a stack of matrices with p.outputs rows each.
layout(constant_id = 7) const uint EXPERTS = 0;
layout(push_constant) uniform Push { MatmulParams p; };
#ifdef NARROW_STORAGE
layout(std430, binding = 3) readonly buffer Scales { float16_t scales[]; };
#else
layout(std430, binding = 3) readonly buffer Scales { uint scales[]; };
#endif
layout(std430, binding = 4) readonly buffer Bias { float bias[]; };
layout(std430, binding = 5) buffer Y { float y[]; };
layout(std430, binding = 6) readonly buffer Experts { float experts[]; };

const uint kGroups = WORKGROUP / LANES;
const uint kSums = OUTPUTS * ROWS;  // per lane
const uint kResults = kGroups * kSums;

shared float partial[LANES * kResults];

#ifdef SUBGROUPS
// If there are few sums, the neighbours add them; otherwise one invocation per result does.
const bool kNeighboursAdd = LANES >= kNeighbours && kSums <= 8;
#else
const bool kNeighboursAdd = false;
#endif

uint lane_in_group() { return lane_index() % LANES; }
uint group_in_workgroup() { return lane_index() / LANES; }

// Output j of this lane and row r of the tile, clamped to the last ones.
uint output_at(uint j) {
  return min((gl_WorkGroupID.x * kGroups + group_in_workgroup()) * OUTPUTS + j, p.outputs - 1);
}
uint row_at(uint r) { return min(gl_WorkGroupID.y * ROWS + r, p.rows - 1); }

// The first row of this workgroup's expert in the stack, and its row of x; read once.
uint first_row_of_expert() {
  if (EXPERTS == 0) return 0;
  uint pair = gl_WorkGroupID.y;
  uint at = p.experts_offset + pair / EXPERTS * p.experts_stride + pair % EXPERTS;
  return uint(experts[at]) * p.outputs;
}
uint expert_row = first_row_of_expert();
uint pair_x_row = EXPERTS == 0 ? 0 : gl_WorkGroupID.y / p.pairs_a_row;

// An output's row in the bound part of the stack; beyond p.part_rows if it is in another part.
uint part_row(uint o) { return expert_row + o - p.first_row; }
// An output's row of the weight, clamped to the last.
uint weight_row(uint o) { return EXPERTS == 0 ? o : min(part_row(o), p.part_rows - 1); }
// Row r's row of x.
uint x_row(uint r) { return EXPERTS == 0 ? row_at(r) : pair_x_row; }

// The scale of a block of q8_0 or q4_0.
float scale_of(uint block) {
  uint at = p.scale_offset + block;
#ifdef NARROW_STORAGE
  return float(scales[at]);
#else
  vec2 both = unpackHalf2x16(scales[at >> 1]);
  return (at & 1) == 0 ? both.x : both.y;
#endif
}

// The total over all lanes of a group, from `partial`.
float total_of(uint result) {
  if (kNeighboursAdd) {
    precise float total = partial[result];
    for (uint e = 1; e < LANES / kNeighbours; ++e) total = total + partial[e * kResults + result];
    return total;
  }
  if (LANES < kNeighbours) {
    precise float total = partial[result];
    for (uint l = 1; l < LANES; ++l) total = total + partial[l * kResults + result];
    return total;
  }
  precise float total = TREE_OF_EIGHT(partial, result, kResults);
  for (uint l = kNeighbours; l < LANES; l += kNeighbours) {
    total = total + TREE_OF_EIGHT(partial, l * kResults + result, kResults);
  }
  return total;
}

// Adds the lanes' sums, output by output, and writes y.
void finish(float sums[kSums]) {
  uint group = group_in_workgroup();
  for (uint s = 0; s < kSums; ++s) {
#ifdef SUBGROUPS
    if (kNeighboursAdd) {
      float sum = sum_of_neighbours(sums[s]);
      uint eight = lane_in_group() / kNeighbours;
      if (lane_index() % kNeighbours == 0) partial[eight * kResults + group * kSums + s] = sum;
      continue;
    }
#endif
    partial[lane_in_group() * kResults + group * kSums + s] = sums[s];
  }
  barrier();
  for (uint s = lane_index(); s < kResults; s += WORKGROUP) {
    uint o = gl_WorkGroupID.x * kGroups * OUTPUTS + s / ROWS;
    uint row = gl_WorkGroupID.y * ROWS + s % ROWS;
    if (o >= p.outputs || row >= p.rows) continue;
    if (EXPERTS != 0 && part_row(o) >= p.part_rows) continue;
    uint at = p.y_offset + row * p.y_stride + o;
    precise float total = total_of(s);
    if (p.accumulates != 0) total = total + y[at];
    if (p.has_bias != 0) total = total + bias[p.bias_offset + expert_row + o];
    y[at] = total;
  }
}
