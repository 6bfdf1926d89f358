// SPDX-License-Identifier: Apache-2.0

// An opcode's modifiers by their meaning.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_OPCODE_NAME_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_OPCODE_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/cuda/sim/ptx/float_rounding.h"
#include "kernels/cuda/sim/ptx/ptx_module.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {

// For example cvt.rzi.ftz.s32.f32 has types {s32, f32}, rounding kZero, to_integer and ftz.
struct OpcodeName {
  std::string opcode;
  std::vector<ScalarType> types;   // In order.
  std::vector<std::string> words;  // The modifiers that are nothing of the below, in order.
  Rounding rounding = Rounding::kNearestEven;
  bool has_rounding = false;
  bool to_integer = false;  // rni, rzi, rmi, rpi.
  bool ftz = false;
  bool sat = false;
  bool relu = false;
  bool nan = false;
  bool approx = false;  // approx or full.

  bool Has(absl::string_view word) const;
  // Returns whether the words are exactly `expected`.
  bool WordsAre(std::vector<absl::string_view> expected) const;
};

OpcodeName ParseOpcodeName(const Instruction& instruction);

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_OPCODE_NAME_H_
