// SPDX-License-Identifier: Apache-2.0

// The common scalar instructions for all lanes of a warp at once.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_WARP_OPS_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_WARP_OPS_H_

#include <cstdint>

#include "kernels/cuda/sim/ptx/opcode_name.h"
#include "kernels/cuda/sim/ptx/scalar_op.h"

namespace cotan::cuda::ptx {

// Returns the function that does for 32 lanes what `op`, found for `name`, does for one, or null. The functions read
// and write all lanes, whatever the sources hold, and set no bits above the width of the result type.
WarpFn FindWarpFn(const OpcodeName& name, const ScalarOp& op);

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_WARP_OPS_H_
