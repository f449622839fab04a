#version 450
// One workgroup per eight columns of a value head's state; y enumerates value heads. Eight lanes
// share a column: lane part + 8 c has key indices part, part + 8, ... of column c.
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "common.glsl"
#include "lanes.glsl"

layout(local_size_x = kDeltaWorkgroup) in;
layout(constant_id = 0) const uint DIM = 128;
layout(constant_id = 1) const uint INDICES = 16;  // per lane
layout(push_constant) uniform Push { DeltaRuleParams p; };
layout(std430, binding = 1) readonly buffer Qkv { float qkv[]; };
layout(std430, binding = 2) readonly buffer Scratch { float divided[]; };
layout(std430, binding = 3) readonly buffer Kept { float kept[]; };
layout(std430, binding = 4) buffer State { float state[]; };
layout(std430, binding = 5) writeonly buffer Y { float y[]; };
#include "recurrent.glsl"

// Kept rows before a row, in the last places.
shared uint path[kRecurrentRowsMax];
shared uint path_first;
#ifndef SUBGROUPS
// Two, so that one barrier per sum is enough.
shared float parts[2 * kDeltaWorkgroup];
#endif

uint part;
uint column;
uint head;
uint state_at;
float m[INDICES];

// Inputs of one row.
float q[INDICES];
float k[INDICES];
float v;
float decay;
float step_size;

float sum_of_column(float own, uint which) {
#ifdef SUBGROUPS
  return sum_of_neighbours(own);
#else
  uint lane = lane_index();
  parts[which * kDeltaWorkgroup + lane] = own;
  barrier();
  return TREE_OF_EIGHT(parts, which * kDeltaWorkgroup + lane - part, 1);
#endif
}

uint key_index(uint i) { return i * kNeighbours + part; }
bool has(uint i) { return key_index(i) < DIM; }
uint place(uint i) { return state_at + key_index(i) * p.state_stride + column; }

void load_state() {
  for (uint i = 0; i < INDICES; ++i) m[i] = has(i) && column < DIM ? state[place(i)] : 0.0;
}

// Without q.
void read_kept(uint row) {
  uint from = p.kept_offset + row * p.kept_stride;
  uint k_at = from + head % p.key_heads * DIM;
  uint gates_at = from + (p.key_heads + p.value_heads) * DIM + head;
  for (uint n = 0; n < INDICES; ++n) {
    q[n] = 0.0;
    k[n] = has(n) ? kept[k_at + key_index(n)] : 0.0;
  }
  v = column < DIM ? kept[from + (p.key_heads + head) * DIM + column] : 0.0;
  decay = kept[gates_at];
  step_size = kept[gates_at + p.value_heads];
}

void read_row(uint row) {
  uint from = p.scratch_offset + row * p.scratch_stride;
  uint q_at = from + head % p.key_heads * DIM;
  uint gates_at = from + 2 * p.key_heads * DIM + head;
  for (uint n = 0; n < INDICES; ++n) {
    q[n] = has(n) ? divided[q_at + key_index(n)] : 0.0;
    k[n] = has(n) ? divided[q_at + p.key_heads * DIM + key_index(n)] : 0.0;
  }
  uint v_at = p.qkv_offset + row * p.qkv_stride + (2 * p.key_heads + head) * DIM;
  v = column < DIM ? qkv[v_at + column] : 0.0;
  decay = divided[gates_at];
  step_size = divided[gates_at + p.value_heads];
}

// Updates the state by the row that was read: the only order of operations, for every kind of row.
// Returns M^T q.
float advance() {
  precise float known = 0.0;
  for (uint n = 0; n < INDICES; ++n) {
    precise float decayed = m[n] * decay;
    m[n] = decayed;
    known = known + decayed * k[n];
  }
  precise float delta = step_size * (v - sum_of_column(known, 0));
  precise float result = 0.0;
  for (uint n = 0; n < INDICES; ++n) {
    precise float next = m[n] + k[n] * delta;
    m[n] = next;
    result = result + next * q[n];
  }
  return sum_of_column(result, 1);
}

void run_row(uint row) {
  read_row(row);
  precise float result = advance() * p.scale;
  if (part == 0 && column < DIM) y[p.y_offset + row * p.y_stride + head * DIM + column] = result;
}

// Rows before a kept row, into `path`.
void find_path(uint row) {
  barrier();  // the last path has been used
  if (lane_index() == 0) {
    path_first = kRecurrentRowsMax;
    for (uint at = parent(row); at != kNoRow; at = parent(at)) {
      --path_first;
      path[path_first] = at;
    }
  }
  barrier();
}

void main() {
  part = lane_index() % kNeighbours;
  column = (gl_WorkGroupID.x * kDeltaWorkgroup + lane_index()) / kNeighbours;
  head = gl_WorkGroupID.y;
  state_at = p.state_offset + head * DIM * p.state_stride;
  uint settled = settled_rows();
  uint pending_count = pending_rows();
  load_state();
  for (uint i = 0; i < pending_count; ++i) {
    read_kept(pending_row(i));
    advance();
  }
  for (uint row = 0; row < settled; ++row) run_row(row);
  if (pending_count + settled > 0) {
    for (uint i = 0; i < INDICES; ++i) {
      if (has(i) && column < DIM) state[place(i)] = m[i];
    }
  }
  uint before = kNoRow;
  for (uint row = settled; row < p.rows; ++row) {
    uint kept_at = kept_row(row);
    bool follows = parent(kept_at) == before;
    before = kept_at;
    if (!follows) {
      load_state();
      find_path(kept_at);
      for (uint i = path_first; i < kRecurrentRowsMax; ++i) {
        if (path[i] < kept_first()) {
          read_kept(path[i]);
        } else {
          read_row(call_row(path[i]));
        }
        advance();
      }
    }
    run_row(row);
  }
}
