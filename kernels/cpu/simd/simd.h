// How plain loops get the vector instructions of the machine they run on.
#ifndef COTAN_KERNELS_CPU_SIMD_SIMD_H_
#define COTAN_KERNELS_CPU_SIMD_SIMD_H_

// Before the definition of a function: the compiler makes a version for each
// level of x86 and the loader picks one, so a binary built for any x86 uses
// AVX-512 where there is. Everything hot must be in the function itself or
// inlined into it ([[gnu::always_inline]]). On other processors: nothing.
//
// Versions may differ in the last bit, since some contract a * b + c; on one
// machine the choice is always the same.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define COTAN_SIMD_VERSIONS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define COTAN_SIMD_VERSIONS
#endif

#endif  // COTAN_KERNELS_CPU_SIMD_SIMD_H_
