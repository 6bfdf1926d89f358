// SPDX-License-Identifier: Apache-2.0

// Writes an expression as a part of the kernel of another op, whose results it reads from registers.
#ifndef COTAN_KERNELS_CUDA_EXPR_EPILOGUE_WRITER_H_
#define COTAN_KERNELS_CUDA_EXPR_EPILOGUE_WRITER_H_

#include <string>
#include <vector>

#include "kernels/cuda/expr/analysis.h"
#include "kernels/cuda/expr/kernel_part.h"

namespace cotan::cuda::expr {

// A class of a kernel, with methods of one element of the domain at position `at` in row-major order:
//   Operands Read(Index, Index at) const           loads what the element needs
//   void Write(Sum sum, Operands, Index at) const  computes it with input 0 = `sum`, rounded, and stores its outputs
// All operands of an element are read before it is written, so that an output may be any input that InPlaceSafe()
// allows.
struct EpilogueText {
  // Headers of the device library, without ".cuh", in alphabetic order.
  std::vector<std::string> headers;
  // Arguments are numbered as in the expression. Input 0 is not among them.
  std::vector<KernelParameter> parameters;
  std::string definition;   // "struct Epilogue {...};\n", after `using namespace cotan;`
  std::string constructor;  // "Epilogue{in1, out0}": the object, for the names of the parameters
};

// Writes an expression without reductions, whose input 0 is row-major over the domain. `Shape` in the text has the
// types Index and Sum (kernels/cuda/source/matmul.cuh).
EpilogueText WriteEpilogue(const Problem& problem);

}  // namespace cotan::cuda::expr

#endif  // COTAN_KERNELS_CUDA_EXPR_EPILOGUE_WRITER_H_
