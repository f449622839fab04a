#include "kernels/cpu/ops.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace edgedraft::cpu {

namespace baseline {
extern const Kernels kernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels kernels;
}
namespace avx2vnni {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}
namespace avx512vnni {
extern const Kernels kernels;
}
#endif

namespace {

#if defined(__x86_64__)
// The compiler's test for the rest includes that the system saves the registers; it does not know
// F16C everywhere.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
// Leaf 7.1; the state it needs is that of AVX2.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1u << 4)) != 0;
}
#endif

struct Available {
  const Kernels* list[6] = {};
  std::size_t count = 0;

  Available() {
    list[count++] = &baseline::kernels;
#if defined(__x86_64__)
    if (has_avx2()) list[count++] = &avx2::kernels;
    if (has_avx2() && has_avx_vnni()) list[count++] = &avx2vnni::kernels;
    if (has_avx512()) list[count++] = &avx512::kernels;
    if (has_avx512() && __builtin_cpu_supports("avx512vnni")) list[count++] = &avx512vnni::kernels;
#endif
  }
};

const Available& available() {
  static const Available found;
  return found;
}

}  // namespace

const Kernels* const* available_kernels() {
  return available().list;
}

const Kernels& best_kernels() {
  return *available().list[available().count - 1];
}

}  // namespace edgedraft::cpu
