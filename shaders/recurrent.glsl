// Words of a recurrent operation in the call buffer, for shaders with push constants p.rows_at and
// p.rows.

uint settled_rows() { return call[p.rows_at + kSettledWord]; }
uint pending_rows() { return call[p.rows_at + kPendingCountWord]; }
uint kept_first() { return call[p.rows_at + kKeptFirstWord]; }

// Row of `kept` before another, or kNoRow.
uint parent(uint kept_row) { return call[p.rows_at + kParentWords + kept_row]; }
// Row of `kept` that is the path's row i.
uint pending_row(uint i) {
  uint kept_end = kept_first() + p.rows - settled_rows();
  return call[p.rows_at + kParentWords + kept_end + i];
}

// A row of the call as a row of `kept`, and back. Rows of `kept` below kept_first() are of earlier
// calls.
// Requires  row >= settled_rows()
uint kept_row(uint row) { return kept_first() + row - settled_rows(); }
uint call_row(uint kept_row) { return settled_rows() + kept_row - kept_first(); }
