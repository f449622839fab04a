#include "kernels/cpu/exp.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

constexpr float kLimit = 7.0f;  // of clamped factors

EDGEDRAFT_INLINE Lanes at_most(const Lanes& v, float limit) {
  Lanes limited;
  const Part most = all_part(limit);
  for (std::size_t p = 0; p < kParts; ++p) {
    limited.part[p] = v.part[p] > most ? most : v.part[p];
  }
  return limited;
}
EDGEDRAFT_INLINE Lanes at_least(const Lanes& v, float limit) {
  Lanes limited;
  const Part least = all_part(limit);
  for (std::size_t p = 0; p < kParts; ++p) {
    limited.part[p] = v.part[p] < least ? least : v.part[p];
  }
  return limited;
}

template <Activation kActivation>
EDGEDRAFT_INLINE Lanes activated(const Lanes& g) {
  if constexpr (kActivation == Activation::silu) {
    return g / (all(1.0f) + exp(all(0.0f) - g));
  } else if constexpr (kActivation == Activation::gelu) {
    // (1 + tanh u) / 2 = 1 / (1 + e^-2u), u = sqrt(2 / pi) (g + 0.044715 g^3)
    const Lanes cubic = all(1.0f) + all(0.044715f) * (g * g);
    return g / (all(1.0f) + exp(all(-1.59576912f) * g * cubic));
  } else if constexpr (kActivation == Activation::clamped) {
    const Lanes limited = at_most(g, kLimit);
    return limited / (all(1.0f) + exp(all(-1.702f) * limited));
  } else if constexpr (kActivation == Activation::sigmoid) {
    return all(1.0f) / (all(1.0f) + exp(all(0.0f) - g));
  } else {
    return g;
  }
}

template <Activation kActivation>
EDGEDRAFT_INLINE Lanes factor(const Lanes& up) {
  if constexpr (kActivation == Activation::clamped) {
    return at_least(at_most(up, kLimit), -kLimit) + all(1.0f);
  } else {
    return up;
  }
}

template <Activation kActivation>
void gate_row(const GateArgs& a, const float* gate, const float* up, float* y) {
  const std::size_t whole = a.cols / kLanes * kLanes;
  const Lanes one = a.one_gate ? activated<kActivation>(all(*gate)) : Lanes{};
  for (std::size_t i = 0; i < whole; i += kLanes) {
    const Lanes g = a.one_gate ? one : activated<kActivation>(load(gate + i));
    store(y + i, g * factor<kActivation>(load(up + i)));
  }
  if (whole == a.cols) return;
  const std::size_t count = a.cols - whole;
  const Lanes g = a.one_gate ? one : activated<kActivation>(load_first(gate + whole, count));
  store_first(y + whole, g * factor<kActivation>(load_first(up + whole, count)), count);
}

template <Activation kActivation>
void gate_rows(const GateArgs& a, const Work& work) {
  for (std::size_t r = work.begin; r < work.end; ++r) {
    gate_row<kActivation>(a, a.gate.data + r * a.gate.stride, a.up.data + r * a.up.stride,
                          a.y.data + r * a.y.stride);
  }
}

}  // namespace

void gate(const GateArgs& a, const Work& work) {
  switch (a.activation) {
    case Activation::silu:
      return gate_rows<Activation::silu>(a, work);
    case Activation::gelu:
      return gate_rows<Activation::gelu>(a, work);
    case Activation::clamped:
      return gate_rows<Activation::clamped>(a, work);
    case Activation::sigmoid:
      return gate_rows<Activation::sigmoid>(a, work);
    case Activation::identity:
      return gate_rows<Activation::identity>(a, work);
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
