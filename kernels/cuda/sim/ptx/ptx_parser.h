// SPDX-License-Identifier: Apache-2.0

// Reads PTX text.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_PTX_PARSER_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_PTX_PARSER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/sim/ptx/ptx_module.h"

namespace cotan::cuda::ptx {

// Returns the module that `text` describes, as nvcc -ptx and NVRTC emit it. Opcodes are not checked
// here; see decoder.h. Fails with InvalidArgument for text that is not PTX and with Unimplemented
// for declarations that the interpreter does not hold; both name the line.
absl::StatusOr<Module> ParsePtx(absl::string_view text);

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_PTX_PARSER_H_
