// SPDX-License-Identifier: Apache-2.0

// Arithmetic of PTX's floating-point types with an explicit rounding mode.
//
// Operations of f16, bf16 and f32 are computed in double precision and rounded to odd: an inexact
// result gets an odd last bit. Rounding such a result a second time, in any mode, to a format with at
// least two bits fewer gives what one rounding of the exact result gives.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_FLOAT_ROUNDING_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_FLOAT_ROUNDING_H_

#include <cstdint>

#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {

enum class Rounding : uint8_t { kNearestEven, kZero, kDown, kUp };

// Returns the value of the bits of an f16, bf16, f32 or f64.
double DecodeFloat(uint64_t bits, ScalarType type);

// Returns the bits of `value` rounded to `type`; every NaN becomes the canonical one. Exact for f64.
uint64_t EncodeFloat(double value, ScalarType type, Rounding rounding);

// Moves `value`, the exact result rounded to nearest, to the odd neighbour on the other side of the
// exact result unless it is odd. `error` has the sign of the exact result minus `value`; 0 if exact.
double AdjustToOdd(double value, double error);

// These round to odd. The arguments of FmaToOdd are at most 24 bits wide.
double AddToOdd(double a, double b);
double FmaToOdd(double a, double b, double c);
double DivideToOdd(double a, double b);
double SqrtToOdd(double a);
double IntegerToOdd(uint64_t value, bool is_signed);

// Sets the processor's rounding mode while it lives.
class ScopedRounding {
 public:
  explicit ScopedRounding(Rounding rounding);
  ~ScopedRounding();
  ScopedRounding(const ScopedRounding&) = delete;
  ScopedRounding& operator=(const ScopedRounding&) = delete;

 private:
  int previous_;
};

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_FLOAT_ROUNDING_H_
