// SPDX-License-Identifier: Apache-2.0

// Writes machine code of f32 functions on vectors of AVX-512: those of tile_vector_math.h, with the same bits.
#ifndef COTAN_KERNELS_CPU_EXPR_VECTOR_CODE_H_
#define COTAN_KERNELS_CPU_EXPR_VECTOR_CODE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "xbyak/xbyak.h"

namespace cotan::cpu::expr {

// An assembler with constants and a pool of vector registers. After an error (Failed()), what it has written is not to
// be used.
class VectorCode : public Xbyak::CodeGenerator {
 public:
  using Zmm = Xbyak::Zmm;
  using Opmask = Xbyak::Opmask;

  // Writes to `buffer`, which outlives the object.
  explicit VectorCode(absl::Span<uint8_t> buffer) : CodeGenerator(buffer.size(), buffer.data()) { Xbyak::ClearError(); }

  // --- Registers ---

  // Makes all vector registers and masks available, except masks k0 and k1.
  void ResetRegisters();
  // Takes a vector register or a mask. If there is none, the code has failed.
  Zmm TakeVector();
  Opmask TakeMask();
  void Give(Zmm vector) { free_vectors_.push_back(vector.getIdx()); }
  void Give(Opmask mask) { free_masks_.push_back(mask.getIdx()); }

  bool Failed() const { return failed_ || Xbyak::GetError() != Xbyak::ERR_NONE; }

  // --- Constants ---

  void Splat(Zmm x, float value) { vbroadcastss(x, ScalarConstant(value)); }
  // Sets x to `value` where `mask` holds, else to 0.
  void SplatWhere(Zmm x, Opmask mask, float value) { vbroadcastss(x | mask | T_z, ScalarConstant(value)); }
  // Returns a constant as an operand, the same for all lanes.
  Xbyak::Address Constant(float value);
  Xbyak::Address IntConstant(uint32_t bits);
  // Returns 16 bytes of ones.
  Xbyak::Address OneBytes();
  // Writes the constants that were used, after all code.
  void WriteConstants();

  // --- Functions ---
  // Each replaces the values in registers x, instruction by instruction for all of them.

  using Group = absl::Span<const Zmm>;

  void IntToFloat(Group x);
  void Neg(Group x);
  void Abs(Group x);
  void Relu(Group x);
  void Sqrt(Group x);
  void Rsqrt(Group x);
  void Reciprocal(Group x);
  void Exp(Group x);
  void Expm1(Group x);
  void Log(Group x);
  void Log1p(Group x);
  void Tanh(Group x);
  void Erf(Group x);
  void Logistic(Group x);
  void RoundToBFloat16(Group x);

 private:
  // Registers for the time of a function.
  class Temporaries {
   public:
    Temporaries(VectorCode& code, size_t count) : code_(code) {
      for (size_t k = 0; k < count; ++k) vectors_.push_back(code.TakeVector());
    }
    ~Temporaries() {
      for (const Zmm vector : vectors_) code_.Give(vector);
    }
    Temporaries(const Temporaries&) = delete;
    Temporaries& operator=(const Temporaries&) = delete;
    const Zmm& operator[](size_t k) const { return vectors_[k]; }
    operator Group() const { return vectors_; }  // NOLINT: stands for the registers

   private:
    VectorCode& code_;
    std::vector<Zmm> vectors_;
  };

  // Keeps x in [low, high]; NaN stays.
  void Clamp(Group x, float low, float high);
  // Sets `sum` to the polynomial of x with these coefficients, the highest power first.
  void Polynomial(Group sum, Group x, absl::Span<const float> coefficients);
  // Writes x as n ln 2 + r, and replaces it by r; n is also the low bits of `shifted`, if there are such registers.
  void ReduceExp(Group x, Group n, Group shifted);
  // Replaces x, at most ln 2 / 2, by exp(x) - 1.
  void Expm1Near0(Group x);
  Xbyak::Address ScalarConstant(float value);
  Xbyak::Label& ConstantLabel(uint32_t bits);

  std::vector<int> free_vectors_;
  std::vector<int> free_masks_;
  std::map<uint32_t, Xbyak::Label> constants_;
  Xbyak::Label one_bytes_;
  bool uses_one_bytes_ = false;
  bool failed_ = false;
};

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_VECTOR_CODE_H_
