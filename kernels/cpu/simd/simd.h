// SPDX-License-Identifier: Apache-2.0

// Compiles plain loops for several vector instruction sets.
#ifndef COTAN_KERNELS_CPU_SIMD_SIMD_H_
#define COTAN_KERNELS_CPU_SIMD_SIMD_H_

// Put it before the definition of a function: the compiler makes a version for each level of x86-64 and the
// loader selects one, so that a binary built for any x86-64 processor uses AVX-512 where it is available. All
// hot code must be in the function itself or inlined into it ([[gnu::always_inline]]). It is empty for other
// processors and for Clang.
//
// Versions may differ in the last bit, because some contract a * b + c to one FMA; on one machine the same
// version always runs.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define COTAN_SIMD_VERSIONS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define COTAN_SIMD_VERSIONS
#endif

#endif  // COTAN_KERNELS_CPU_SIMD_SIMD_H_
