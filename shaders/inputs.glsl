// Inputs of a convolution: those in the state, pending ones, settled rows, then a tree of drafted
// rows. For shaders with the buffers x, state and kept.
#include "recurrent.glsl"

float input_of(uint row, uint c) { return x[p.x_offset + row * p.x_stride + c]; }
float kept_input(uint row, uint c) { return kept[p.kept_offset + row * p.kept_stride + c]; }
float drafted_input(uint kept_row, uint c) {
  return kept_row < kept_first() ? kept_input(kept_row, c) : input_of(call_row(kept_row), c);
}

// The input of column c `steps` positions before the drafted rows.
float input_before_drafts(uint steps, uint c) {
  uint settled = settled_rows();
  if (steps <= settled) return input_of(settled - steps, c);
  steps -= settled;
  uint count = pending_rows();
  if (steps <= count) return kept_input(pending_row(count - steps), c);
  return state[p.state_offset + (p.taps - 1 + count - steps) * p.state_stride + c];
}
