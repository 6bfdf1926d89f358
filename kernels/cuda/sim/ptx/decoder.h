// SPDX-License-Identifier: Apache-2.0

// Turns a parsed instruction into an operation.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_DECODER_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_DECODER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/sim/ptx/program.h"
#include "kernels/cuda/sim/ptx/ptx_module.h"

namespace cotan::cuda::ptx {

// The places of the symbols of a function.
struct FunctionLayout {
  const Module* module = nullptr;
  const SymbolAddresses* symbols = nullptr;
  bool is_entry = false;
  int64_t frame_base = 0;      // In bytes within the frame of a thread.
  int64_t shared_base = 0;     // In bytes within the shared memory of the block.
  int64_t dynamic_shared = 0;  // The same, of dynamic shared memory.
};

// Returns the operation, without the targets of branches and calls. Errors as in Program::Create.
absl::StatusOr<Operation> Decode(const Instruction& instruction, const FunctionLayout& layout);

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_DECODER_H_
