#include "kernels/cpu/ops.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace edgedraft::cpu {

#if defined(__aarch64__)
namespace neon {
extern const Kernels kernels;
}
namespace neondotprod {
extern const Kernels kernels;
}
namespace neoni8mm {
extern const Kernels kernels;
}
#else
namespace baseline {
extern const Kernels kernels;
}
#endif
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
namespace avx512amx {
extern const Kernels kernels;
}
#endif

namespace {

#if defined(__x86_64__)
// The compiler's test covers the other features, register saving included, but not F16C on all
// compilers.
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
// Leaf 7.1; it needs the same saved state as AVX2.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1u << 4)) != 0;
}
bool has_avx512_vnni() {
  return has_avx512() && __builtin_cpu_supports("avx512vnni");
}
// Tiles, their bfloat16 and int8 products, and a system that saves them.
bool has_amx() {
  constexpr unsigned kTilesAndProducts = 1u << 22 | 1u << 24 | 1u << 25;
  constexpr unsigned kSaved = 1u << 17 | 1u << 18;  // tile shapes and contents
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_OSXSAVE) == 0) return false;
  unsigned saved = 0, saved_high = 0;
  __asm__("xgetbv" : "=a"(saved), "=d"(saved_high) : "c"(0));
  return (saved & kSaved) == kSaved && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
         (edx & kTilesAndProducts) == kTilesAndProducts;
}
// Linux saves a thread's 8 KiB of tiles only if the process requested permission.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileContents = 18;           // XFEATURE_XTILE_DATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileContents) == 0;
#else
  return false;
#endif
}
#elif defined(__aarch64__)
// Features that every core has: systems report only those.
#if defined(__linux__)
bool has_dot_products() {
  constexpr unsigned long kDotProducts = 1ul << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kDotProducts) != 0;
}
bool has_int8_matrices() {
  constexpr unsigned long kInt8Matrices = 1ul << 13;  // HWCAP2_I8MM
  return (getauxval(AT_HWCAP2) & kInt8Matrices) != 0;
}
#elif defined(__APPLE__)
bool has(const char* feature) {
  int value = 0;
  std::size_t bytes = sizeof value;
  return sysctlbyname(feature, &value, &bytes, nullptr, 0) == 0 && value != 0;
}
bool has_dot_products() {
  return has("hw.optional.arm.FEAT_DotProd");
}
bool has_int8_matrices() {
  return has("hw.optional.arm.FEAT_I8MM");
}
#else
bool has_dot_products() {
  return false;
}
bool has_int8_matrices() {
  return false;
}
#endif
#endif

struct Available {
  const Kernels* list[7] = {};
  std::size_t count = 0;

  Available() {
#if defined(__aarch64__)
    list[count++] = &neon::kernels;
    if (has_dot_products()) list[count++] = &neondotprod::kernels;
    if (has_dot_products() && has_int8_matrices()) list[count++] = &neoni8mm::kernels;
#else
    list[count++] = &baseline::kernels;
#endif
#if defined(__x86_64__)
    if (has_avx2()) list[count++] = &avx2::kernels;
    if (has_avx2() && has_avx_vnni()) list[count++] = &avx2vnni::kernels;
    if (has_avx512()) list[count++] = &avx512::kernels;
    if (has_avx512_vnni()) list[count++] = &avx512vnni::kernels;
    if (has_avx512_vnni() && has_amx() && may_use_tiles()) {
      list[count++] = &avx512amx::kernels;
    }
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
