// SPDX-License-Identifier: Apache-2.0

// Executes a launch of a kernel given as PTX.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_INTERPRETER_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_INTERPRETER_H_

#include "absl/status/statusor.h"
#include "kernels/cuda/sim/ptx/counters.h"
#include "kernels/cuda/sim/ptx/global_memory.h"
#include "kernels/cuda/sim/ptx/launch.h"
#include "kernels/cuda/sim/ptx/program.h"

namespace cotan::cuda::ptx {

// Runs `launch` of `program` block by block, deterministically, and returns what it counted. The
// first violation ends the launch; what was stored before stays. Errors are those of CheckLaunch and
// BlockExecutor; the latter name kernel, line, block and thread.
//
//   COTAN_ASSIGN_OR_RETURN(const Module module, ParsePtx(text));
//   COTAN_ASSIGN_OR_RETURN(const Program program, Program::Create(module, "kernel", symbols));
//   COTAN_ASSIGN_OR_RETURN(const Counters counters, Execute(program, launch, memory));
absl::StatusOr<Counters> Execute(const Program& program, const Launch& launch, GlobalMemory& memory);

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_INTERPRETER_H_
