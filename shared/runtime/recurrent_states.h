#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/model/config.h"
#include "shared/runtime/backend.h"

namespace edgedraft {

class StateCheckpoint;

// States of one sequence in the layers that keep no keys and values, and the rows that rebuild the
// states of drafted positions (RecurrentRows).
//
// The states cover the settled positions 0..settled()-1; the positions after them are rows that the
// next call folds in. A sequence can go back to a copy of the states: its own, or a checkpoint of a
// pool, which other sequences may continue, too.
class RecurrentStates {
 public:
  // `rows_max`: drafted rows after the settled positions. Throws DeviceError if out of memory.
  RecurrentStates(Backend& backend, const DecoderConfig& config, std::uint32_t rows_max);

  // Bytes of one sequence; 0 for a decoder without such layers.
  static std::uint64_t bytes(const DecoderConfig& config, std::uint32_t rows_max);
  // Bytes of one copy of the states; 0 for a decoder without such layers.
  static std::uint64_t copy_bytes(const DecoderConfig& config);
  // Places one copy of the states at `offset` floats: per layer the convolution's inputs, then the
  // delta net's matrices.
  static std::vector<Matrix> lay_out(const DecoderConfig& config, Buffer& memory,
                                     std::uint64_t offset);

  std::uint32_t settled() const { return settled_; }
  std::uint32_t rows_max() const { return rows_max_; }

  // Copies the states of the settled positions, in place of the last copy.
  void save();
  std::uint32_t saved() const { return saved_; }
  // Back to the last copy if it covers at most `length` positions, else to the start. Returns the
  // settled positions.
  std::uint32_t go_back(std::uint32_t length);
  // Copies the states of the settled positions into a checkpoint's matrices.
  void copy_to(std::span<const Matrix> states) { copy(states_, states); }
  // Continues after the checkpoint's positions, which have the same tokens.
  void restore(const StateCheckpoint& checkpoint);
  // Drops positions from `length` on. Requires  settled() <= length
  void shorten(std::uint32_t length);
  // The rows in the given slots, which increase, are the next positions.
  void keep(std::span<const std::uint32_t> slots);

  // Begins a call for rows in slots first_slot.. of a sequence of `length` positions; `parents[r]`
  // is the slot before row r, or kNoParent below `length`. settled as in RecurrentRows.
  void begin(std::uint32_t length, std::uint32_t first_slot, std::uint32_t settled,
             std::span<const std::uint32_t> parents);
  // The operands of layer `i` in the call; valid until end().
  RecurrentRows convolution(std::uint32_t i) const;
  RecurrentRows delta(std::uint32_t i) const;
  // All layers have been given their rows.
  void end();

 private:
  struct Layer {
    Matrix convolution_state;
    Matrix convolution_kept;
    Matrix delta_state;
    Matrix delta_kept;
  };
  void copy(std::span<const Matrix> from, std::span<const Matrix> to);
  RecurrentRows rows(const Matrix& state, const Matrix& kept) const;

  Backend& backend_;
  std::uint32_t rows_max_;
  std::unique_ptr<Buffer> memory_;
  std::vector<Matrix> states_;
  std::vector<Matrix> saved_states_;
  std::vector<Layer> layers_;  // of the decoder; empty matrices where there is no state
  std::uint32_t settled_ = 0;
  std::uint32_t saved_ = 0;             // positions of the copy; 0: none
  std::vector<std::uint32_t> pending_;  // kept rows of the positions from settled() on

  // Of the running call.
  std::uint32_t count_ = 0;
  std::uint32_t first_ = 0;
  std::uint32_t settling_ = 0;
  std::uint32_t settled_after_ = 0;
  std::vector<std::uint32_t> parents_;  // of all kept rows
};

}  // namespace edgedraft
