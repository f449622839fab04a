#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "shared/base/check.h"
#include "shared/runtime/cpu_part.h"
#include "shared/runtime/expert_stacks.h"
#include "shared/runtime/op_checks.h"

namespace edgedraft {

// Cost of rounding an element to int8, in steps.
inline constexpr std::uint64_t kQuantizeSteps = 2;
// Cost of splitting an element into bfloat16, in steps.
inline constexpr std::uint64_t kSplitSteps = 4;
// From this many rows per thread, and up to this weight size, moving activations between cores
// costs more than reading the weight on every core.
inline constexpr std::size_t kRowsAThreadMin = 4;
inline constexpr std::size_t kSharedWeightBytesMax = std::size_t{2} << 20;

// Matmuls of a CPU backend, with their converted activations.
class CpuProducts final : CpuPart {
 public:
  CpuProducts(const cpu::Kernels& kernels, CpuThreads& threads) : CpuPart(kernels, threads) {}

  // Groups matmuls of a kind, so that their activations are converted once.
  void matmuls(std::span<const MatmulOp> ops) {
    int8_products_.clear();
    float_products_.clear();
    bool is_split = false;
    for (const MatmulOp& op : ops) {
      check_op(op);
      EDGEDRAFT_CHECK(same_place(op.x, ops[0].x));
      if (takes_tiles(kernels_, op.weight.type, op.x.cols)) {
        if (!is_split) run_split(op.x);
        is_split = true;
        tile_matmul(op);
      } else if (is_float(op.weight.type)) {
        float_products_.add(args_of<cpu::MatmulArgs>(op));
      } else {
        int8_products_.add(args_of<cpu::Int8MatmulArgs>(op));
      }
    }
    if (!int8_products_.ops.empty()) int8_matmuls(ops[0].x);
    if (!float_products_.ops.empty()) float_matmuls(ops[0].x);
  }

  // Arguments of a matmul or, with the first expert's weights, of experts; x is null.
  template <class Args>
  static Args args_of(const MatmulOp& op) {
    Args args{};
    if constexpr (requires { args.x_stride; }) args.x_stride = cpu::quantized_row_bytes(op.x.cols);
    args.type = op.weight.type;
    args.panels = panels_of(op.weight);
    args.bias = HostBackend::f32_data(op.bias);
    args.y = rows(op.y);
    args.rows = op.x.rows;
    args.inputs = op.x.cols;
    args.outputs = op.y.cols;
    args.accumulate = op.into == Into::accumulate;
    return args;
  }

  // Converts the rows of x to int8. The result is valid until the next call.
  const std::byte* quantize(const Matrix& x) {
    run(kernels_.quantize, quantize_args(x), by_rows(x, kQuantizeSteps));
    return quantized_->bytes().data();
  }
  // Memory for rows to interleave, valid until the next call.
  float* interleaved(std::size_t rows, std::size_t cols) {
    threads_.reserve(interleaved_, interleaved_bytes(rows, cols));
    return reinterpret_cast<float*>(interleaved_->mutable_data());
  }

 private:
  static const std::byte* panels_of(const Weight& w) {
    EDGEDRAFT_CHECK(w.offset_bytes == 0);
    const std::size_t bytes_count = packed_stack_bytes(w.type, w.rows, w.cols, w.experts);
    if (w.experts > 1) {
      const auto& stack = static_cast<const ExpertStack&>(*w.buffer);
      EDGEDRAFT_CHECK(stack.bytes_count() == bytes_count);
      return stack.panels();
    }
    const auto& buffer = static_cast<const HostBuffer&>(*w.buffer);
    EDGEDRAFT_CHECK(buffer.is_packed() && buffer.bytes().size() == bytes_count);
    return buffer.bytes().data();
  }

  // Matmuls of one call whose weights lie in panels.
  template <class Args>
  struct PanelProducts {
    struct Op {
      Args args;               // all but x
      std::size_t panels_end;  // counted over all matmuls of the call
    };
    std::vector<Op> ops;
    std::size_t panels = 0;
    std::size_t weight_bytes = 0;

    void clear() {
      ops.clear();
      panels = 0;
      weight_bytes = 0;
    }
    void add(const Args& args) {
      panels += cpu::panel_count(args.outputs);
      weight_bytes += cpu::packed_bytes(args.type, args.outputs, args.inputs);
      ops.push_back({.args = args, .panels_end = panels});
    }
  };

  static bool same_place(const Matrix& a, const Matrix& b) {
    return a.buffer == b.buffer && a.offset == b.offset && a.rows == b.rows && a.stride == b.stride;
  }

  // Threads share the panels of all matmuls together and read each weight once.
  template <class Args, class Activations>
  void by_panels(void (*kernel)(const Args&, const cpu::Work&), const PanelProducts<Args>& products,
                 const Matrix& x, const Activations* activations) {
    const std::uint64_t steps =
        std::uint64_t{products.panels} * cpu::kPanelOutputs * x.rows * x.cols;
    threads_.share(
        products.panels, 1, steps, [&](std::size_t begin, std::size_t end, std::size_t thread) {
          std::size_t first = 0;
          for (const auto& op : products.ops) {
            const std::size_t from = std::max(begin, first);
            const std::size_t to = std::min(end, op.panels_end);
            if (from < to) {
              Args args = op.args;
              args.x = activations;
              kernel(
                  args,
                  {.begin = from - first, .end = to - first, .scratch = threads_.scratch(thread)});
            }
            first = op.panels_end;
          }
        });
  }

  // Converts the rows of x to int8, into quantized_.
  cpu::QuantizeArgs quantize_args(const Matrix& x) {
    threads_.reserve(quantized_, quantized_bytes(x.rows, x.cols));
    return {.x = const_rows(x),
            .cols = x.cols,
            .y = quantized_->mutable_data(),
            .y_stride = cpu::quantized_row_bytes(x.cols)};
  }

  void int8_matmuls(const Matrix& x) {
    if (x.rows >= kRowsAThreadMin * threads_.pool().thread_count() &&
        int8_products_.weight_bytes <= kSharedWeightBytesMax) {
      int8_by_rows(x);
    } else {
      by_panels(kernels_.int8_matmul, int8_products_, x, quantize(x));
    }
  }

  // Threads share the rows, as in the operations before and after: activations stay with the core
  // that made them.
  void int8_by_rows(const Matrix& x) {
    threads_.reserve_scratch(kProductScratchFloats);
    const cpu::QuantizeArgs quantize = quantize_args(x);
    threads_.pool().run(x.rows, threads_.pool().one_step_a_thread(x.rows, 1),
                        [&](std::size_t begin, std::size_t end, std::size_t thread) {
                          kernels_.quantize(quantize,
                                            {.begin = begin, .end = end, .scratch = nullptr});
                          for (const auto& op : int8_products_.ops) {
                            cpu::Int8MatmulArgs args = op.args;
                            args.x = quantize.y + begin * quantize.y_stride;
                            args.y.data += begin * args.y.stride;
                            args.rows = end - begin;
                            kernels_.int8_matmul(args, {.begin = 0,
                                                        .end = cpu::panel_count(args.outputs),
                                                        .scratch = threads_.scratch(thread)});
                          }
                        });
  }

  // Converts the rows of x to bfloat16, into split_.
  void run_split(const Matrix& x) {
    const std::size_t cells = cpu::split_cells(x.rows, x.cols);
    threads_.reserve(split_, split_bytes(x.rows, x.cols));
    const cpu::SplitArgs args{
        .x = const_rows(x), .rows = x.rows, .cols = x.cols, .y = split_->mutable_data()};
    run(kernels_.split, args, {.items = cells, .grain = 1, .steps = kSplitSteps * x.rows * x.cols});
  }

  void tile_matmul(const MatmulOp& op) {
    const cpu::TileMatmulArgs args{.x = split_->bytes().data(),
                                   .weight = HostBackend::data(op.weight),
                                   .bias = HostBackend::f32_data(op.bias),
                                   .y = rows(op.y),
                                   .rows = op.x.rows,
                                   .inputs = op.x.cols,
                                   .accumulate = op.into == Into::accumulate};
    // Grain: outputs served by one read of the activations.
    run(kernels_.tile_matmul, args,
        {.items = op.y.cols,
         .grain = 32,
         .steps = std::uint64_t{op.x.rows} * op.x.cols * op.y.cols});
  }

  void float_matmuls(const Matrix& x) {
    by_panels(kernels_.matmul, float_products_, x,
              x.rows == 1 ? HostBackend::data(x) : run_interleave(x));
  }

  // Interleaves the rows of x, into interleaved_.
  const float* run_interleave(const Matrix& x) {
    float* const y = interleaved(x.rows, x.cols);
    run(kernels_.interleave,
        cpu::InterleaveArgs{.x = const_rows(x), .rows = x.rows, .cols = x.cols, .y = y},
        {.items = cpu::chain_count(x.cols), .grain = 1, .steps = std::uint64_t{x.rows} * x.cols});
    return y;
  }

  // Activations, sized for the largest call.
  std::unique_ptr<HostBuffer> quantized_;    // as int8
  std::unique_ptr<HostBuffer> interleaved_;  // with rows interleaved
  std::unique_ptr<HostBuffer> split_;        // as bfloat16
  // Members, so that calls do not allocate.
  PanelProducts<cpu::Int8MatmulArgs> int8_products_;
  PanelProducts<cpu::MatmulArgs> float_products_;
};

}  // namespace edgedraft
