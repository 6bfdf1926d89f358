// SPDX-License-Identifier: Apache-2.0

// Constants of the f32 functions of tile_vector_math.h and vector_code.h, which have the same bits. The polynomials are
// minimax fits of this project, the highest power first.
#ifndef COTAN_KERNELS_CPU_EXPR_VECTOR_CONSTANTS_H_
#define COTAN_KERNELS_CPU_EXPR_VECTOR_CONSTANTS_H_

namespace cotan::cpu::expr {
namespace {

// Adding this rounds to the nearest integer, which is then in the low bits.
constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23
constexpr float kLog2E = 1.44269504088896341f;
// ln 2 in two parts: C1 and C2 of Cephes (cmath/exp.c).
constexpr float kLn2High = 0.693145751953125f;  // 16 bits: products with small integers are exact
constexpr float kLn2Low = 1.42860682030941723e-6f;

// exp(x) rounds to 0 from kExpUnderflow down, and to infinity from kExpOverflow up. Intel's processors take 70 ns for a
// vector with a result that is subnormal or rounds to 0, as those of masked attention do; not if a factor is 0, nor if
// AVX-512 scales by as small a power of two as that of kExpLowest.
constexpr float kExpUnderflow = -104.0f;
constexpr float kExpLowest = -1000.0f;
constexpr float kExpOverflow = 89.0f;

// (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2.
constexpr float kExpPolynomial[] = {0.000199120411701f, 0.00139412112861f, 0.00833327695063f,
                                    0.0416663519001f,   0.166666668003f,   0.500000004721f};
// (log(1 + t) - t + t^2 / 2) / t^3 for 1 + t in [sqrt(1/2), sqrt(2)).
constexpr float kLogPolynomial[] = {0.069150755451f, -0.11789659256f,  0.118730291194f,
                                    -0.12384377364f, 0.142186545839f,  -0.166692490249f,
                                    0.200022267319f, -0.249999866341f, 0.33333310438f};
// erf(x) = x p(x^2) / q(x^2) for |x| <= 4.
constexpr float kErfNumerator[] = {1.98668344e-06f, 0.000284542132f, 0.00388288247f,
                                   0.0531003023f,   0.19353627f,     1.12837914f};
constexpr float kErfDenominator[] = {3.7417883e-05f, 0.00118543353f, 0.0152063463f, 0.115346111f, 0.504849613f, 1.0f};

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_VECTOR_CONSTANTS_H_
