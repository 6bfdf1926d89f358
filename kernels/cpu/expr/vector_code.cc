// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/vector_code.h"

#include <cstring>
#include <limits>

#include "kernels/cpu/expr/vector_constants.h"

namespace cotan::cpu::expr {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace

void VectorCode::ResetRegisters() {
  free_vectors_.clear();
  for (int k = 31; k >= 0; --k) free_vectors_.push_back(k);
  free_masks_ = {7, 6, 5, 4, 3, 2};
}

Xbyak::Zmm VectorCode::TakeVector() {
  if (free_vectors_.empty()) {
    failed_ = true;
    return Zmm(0);
  }
  const int index = free_vectors_.back();
  free_vectors_.pop_back();
  return Zmm(index);
}

Xbyak::Opmask VectorCode::TakeMask() {
  if (free_masks_.empty()) {
    failed_ = true;
    return Opmask(7);
  }
  const int index = free_masks_.back();
  free_masks_.pop_back();
  return Opmask(index);
}

Xbyak::Label& VectorCode::ConstantLabel(uint32_t bits) { return constants_[bits]; }

Xbyak::Address VectorCode::IntConstant(uint32_t bits) { return ptr_b[rip + ConstantLabel(bits)]; }

Xbyak::Address VectorCode::Constant(float value) { return IntConstant(BitsOf(value)); }

Xbyak::Address VectorCode::ScalarConstant(float value) { return dword[rip + ConstantLabel(BitsOf(value))]; }

Xbyak::Address VectorCode::OneBytes() {
  uses_one_bytes_ = true;
  return xword[rip + one_bytes_];
}

void VectorCode::WriteConstants() {
  align(16);
  if (uses_one_bytes_) {
    L(one_bytes_);
    for (int k = 0; k < 16; ++k) db(1);
  }
  for (auto& [bits, label] : constants_) {
    L(label);
    dd(bits);
  }
}

void VectorCode::Clamp(Group x, float low, float high) {
  const Temporaries bound(*this, 1);
  Splat(bound[0], high);
  for (const Zmm& v : x) vminps(v, bound[0], v);
  Splat(bound[0], low);
  for (const Zmm& v : x) vmaxps(v, bound[0], v);
}

void VectorCode::Polynomial(Group sum, Group x, absl::Span<const float> coefficients) {
  const Temporaries next(*this, 1);
  Splat(sum[0], coefficients[0]);
  for (size_t k = 1; k < sum.size(); ++k) vmovaps(sum[k], sum[0]);
  for (const float c : coefficients.subspan(1)) {
    Splat(next[0], c);
    for (size_t k = 0; k < sum.size(); ++k) vfmadd213ps(sum[k], x[k], next[0]);
  }
}

void VectorCode::IntToFloat(Group x) {
  for (const Zmm& v : x) vcvtdq2ps(v, v);
}

void VectorCode::Neg(Group x) {
  for (const Zmm& v : x) vpxord(v, v, IntConstant(0x80000000));
}

void VectorCode::Abs(Group x) {
  for (const Zmm& v : x) vpandd(v, v, IntConstant(0x7fffffff));
}

void VectorCode::Relu(Group x) {
  const Temporaries zero(*this, 1);
  vpxord(zero[0], zero[0], zero[0]);
  for (const Zmm& v : x) vmaxps(v, zero[0], v);
}

void VectorCode::Sqrt(Group x) {
  for (const Zmm& v : x) vsqrtps(v, v);
}

void VectorCode::Rsqrt(Group x) {
  Sqrt(x);
  Reciprocal(x);
}

void VectorCode::Reciprocal(Group x) {
  const Temporaries one(*this, 1);
  Splat(one[0], 1);
  for (const Zmm& v : x) vdivps(v, one[0], v);
}

void VectorCode::ReduceExp(Group x, Group n, Group shifted) {
  const Temporaries c(*this, 2);
  Splat(c[0], kLog2E);
  Splat(c[1], kRoundMagic);
  for (size_t k = 0; k < x.size(); ++k) {
    vmovaps(n[k], c[1]);
    vfmadd231ps(n[k], x[k], c[0]);
  }
  for (size_t k = 0; k < shifted.size(); ++k) vmovaps(shifted[k], n[k]);
  for (const Zmm& v : n) vsubps(v, v, c[1]);
  Splat(c[0], kLn2High);
  Splat(c[1], kLn2Low);
  for (size_t k = 0; k < x.size(); ++k) vfnmadd231ps(x[k], n[k], c[0]);
  for (size_t k = 0; k < x.size(); ++k) vfnmadd231ps(x[k], n[k], c[1]);
}

void VectorCode::Expm1Near0(Group x) {
  const Temporaries p(*this, x.size());
  Polynomial(p, x, kExpPolynomial);
  const Temporaries square(*this, x.size());
  for (size_t k = 0; k < x.size(); ++k) vmulps(square[k], x[k], x[k]);
  for (size_t k = 0; k < x.size(); ++k) vfmadd231ps(x[k], square[k], p[k]);
}

void VectorCode::Exp(Group x) {
  Clamp(x, kExpLowest, kExpOverflow);
  const Temporaries n(*this, x.size());
  ReduceExp(x, n, {});
  Expm1Near0(x);
  for (const Zmm& v : x) vaddps(v, v, Constant(1));
  for (size_t k = 0; k < x.size(); ++k) vscalefps(x[k], x[k], n[k]);
}

void VectorCode::Expm1(Group x) {
  const Temporaries small(*this, x.size());
  for (size_t k = 0; k < x.size(); ++k) vmovaps(small[k], x[k]);
  {
    Clamp(x, -20, kExpOverflow);
    const Temporaries n(*this, x.size()), scale(*this, x.size());
    ReduceExp(x, n, scale);
    Expm1Near0(x);
    for (const Zmm& v : Group(scale)) {
      vpaddd(v, v, IntConstant(126 - BitsOf(kRoundMagic)));
      vpslld(v, v, 23);
    }
    for (size_t k = 0; k < x.size(); ++k) {
      vaddps(n[k], scale[k], Constant(-0.5f));
      vfmadd213ps(x[k], scale[k], n[k]);
      vaddps(x[k], x[k], x[k]);
    }
  }
  const Temporaries t(*this, 1);
  const Opmask is_small = TakeMask();
  for (size_t k = 0; k < x.size(); ++k) {
    vpandd(t[0], small[k], IntConstant(0x7fffffff));
    vcmpltps(is_small, t[0], Constant(1e-4f));
    vmulps(t[0], small[k], Constant(0.5f));
    vfmadd213ps(t[0], small[k], small[k]);
    vmovaps(x[k] | is_small, t[0]);
  }
  Give(is_small);
}

void VectorCode::Log(Group x) {
  const Temporaries exponent(*this, x.size()), t(*this, x.size());
  const Opmask mask = TakeMask();
  for (size_t k = 0; k < x.size(); ++k) {
    vcmpltps(mask, x[k], Constant(1.17549435e-38f));  // subnormal
    vmovaps(t[k], x[k]);
    vmulps(t[k] | mask, x[k], Constant(8388608.0f));
    vpsubd(exponent[k], t[k], IntConstant(0x3f3504f3));
    vpsrad(exponent[k], exponent[k], 23);
  }
  const Temporaries y(*this, x.size());
  for (size_t k = 0; k < x.size(); ++k) {
    vpslld(y[k], exponent[k], 23);
    vpsubd(t[k], t[k], y[k]);
    vaddps(t[k], t[k], Constant(-1));
    vcmpltps(mask, x[k], Constant(1.17549435e-38f));
    vpsubd(exponent[k] | mask, exponent[k], IntConstant(23));
    vcvtdq2ps(exponent[k], exponent[k]);
  }
  Polynomial(y, t, kLogPolynomial);
  const Temporaries square(*this, x.size()), cube(*this, x.size()), low(*this, 1);
  for (size_t k = 0; k < x.size(); ++k) {
    vmulps(square[k], t[k], t[k]);
    vmulps(cube[k], square[k], t[k]);
    vmulps(low[0], exponent[k], Constant(kLn2Low));
    vfmadd213ps(y[k], cube[k], low[0]);
    vfmadd132ps(square[k], y[k], Constant(-0.5f));
    vaddps(t[k], t[k], square[k]);
    vfmadd132ps(exponent[k], t[k], Constant(kLn2High));
  }
  const Zmm& result = low[0];
  for (size_t k = 0; k < x.size(); ++k) {
    vcmpneqps(mask, x[k], Constant(0));
    Splat(result, -kInfinity);
    vmovaps(result | mask, exponent[k]);
    vcmpltps(mask, x[k], Constant(0));
    vbroadcastss(result | mask, ScalarConstant(kNan));
    vcmpltps(mask, x[k], Constant(kInfinity));
    vmovaps(x[k] | mask, result);
  }
  Give(mask);
}

void VectorCode::Log1p(Group x) {
  const Temporaries u(*this, x.size()), y(*this, x.size());
  for (size_t k = 0; k < x.size(); ++k) {
    vaddps(u[k], x[k], Constant(1));
    vmovaps(y[k], u[k]);
  }
  Log(y);
  const Temporaries t(*this, 1);
  const Opmask mask = TakeMask();
  for (size_t k = 0; k < x.size(); ++k) {
    vaddps(t[0], u[k], Constant(-1));
    vsubps(t[0], t[0], x[k]);
    vdivps(t[0], t[0], u[k]);
    vsubps(y[k], y[k], t[0]);
    vcmpeqps(mask, u[k], Constant(1));
    vmovaps(y[k] | mask, x[k]);
    vcmpeqps(mask, u[k], Constant(0));
    vbroadcastss(y[k] | mask, ScalarConstant(-kInfinity));
    vcmpltps(mask, x[k], Constant(kInfinity));
    vmovaps(x[k] | mask, y[k]);
  }
  Give(mask);
}

void VectorCode::Tanh(Group x) {
  const Temporaries sign(*this, x.size());
  for (size_t k = 0; k < x.size(); ++k) vpandd(sign[k], x[k], IntConstant(0x80000000));
  Abs(x);
  const Temporaries bound(*this, 1);
  Splat(bound[0], 10);
  for (const Zmm& v : x) {
    vminps(v, bound[0], v);
    vaddps(v, v, v);
  }
  Expm1(x);
  for (size_t k = 0; k < x.size(); ++k) {
    vaddps(bound[0], x[k], Constant(2));
    vdivps(x[k], x[k], bound[0]);
    vpandd(x[k], x[k], IntConstant(0x7fffffff));
    vpord(x[k], x[k], sign[k]);
  }
}

void VectorCode::Logistic(Group x) {
  Neg(x);
  Exp(x);
  for (const Zmm& v : x) vaddps(v, v, Constant(1));
  Reciprocal(x);
}

void VectorCode::Erf(Group x) {
  Clamp(x, -4, 4);
  const Temporaries square(*this, x.size());
  for (size_t k = 0; k < x.size(); ++k) vmulps(square[k], x[k], x[k]);
  const Temporaries p(*this, x.size());
  Polynomial(p, square, kErfNumerator);
  for (size_t k = 0; k < x.size(); ++k) vmulps(x[k], x[k], p[k]);
  Polynomial(p, square, kErfDenominator);
  for (size_t k = 0; k < x.size(); ++k) vdivps(x[k], x[k], p[k]);
  Clamp(x, -1, 1);
}

void VectorCode::RoundToBFloat16(Group x) {
  const Temporaries rounded(*this, x.size());
  const Opmask is_nan = TakeMask();
  for (size_t k = 0; k < x.size(); ++k) vpsrld(rounded[k], x[k], 16);
  for (size_t k = 0; k < x.size(); ++k) vpandd(rounded[k], rounded[k], IntConstant(1));
  for (size_t k = 0; k < x.size(); ++k) vpaddd(rounded[k], rounded[k], x[k]);
  for (size_t k = 0; k < x.size(); ++k) vpaddd(rounded[k], rounded[k], IntConstant(0x7fff));
  for (size_t k = 0; k < x.size(); ++k) {
    vcmpunordps(is_nan, x[k], x[k]);
    vpord(rounded[k] | is_nan, x[k], IntConstant(0x400000));
    vpandd(x[k], rounded[k], IntConstant(0xffff0000));
  }
  Give(is_nan);
}

}  // namespace cotan::cpu::expr
