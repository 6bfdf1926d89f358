// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/tile_ops_isa.h"

namespace cotan::cpu::expr {

Isa BestIsa() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) {
    return Isa::kGeneric;
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? Isa::kAvx512 : Isa::kAvx2;
#else
  return Isa::kGeneric;
#endif
}

}  // namespace cotan::cpu::expr
