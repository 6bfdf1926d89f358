// SPDX-License-Identifier: Apache-2.0

// Compiles the CUDA kernels of a program ahead of time and stores them in its file, so that a session needs no
// compiler. Needs the toolkit's NVRTC, and no GPU.
#ifndef COTAN_AOT_CUDA_EMBED_KERNELS_H_
#define COTAN_AOT_CUDA_EMBED_KERNELS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

struct CudaKernelOptions {
  // Compute capabilities, ten times the major plus the minor version: 90 for Hopper. Machine code for each, and PTX for
  // the highest one, which later GPUs translate. Empty: no kernels are compiled.
  std::vector<int> compute_capabilities;
  // Sizes for which kernels are compiled, one set of values of the artifact's symbols each. A program without dynamic
  // dimensions has one empty set.
  std::vector<DimVector> sizes;
};

// Returns OK if the CUDA backend has a kernel for every op of the artifact at these sizes.
// Unimplemented: it lacks some; the message names all of them.
// Errors of MakeSchedule().
absl::Status CheckCudaKernels(const serialization::Artifact& artifact, absl::Span<const DimVector> sizes);

// Returns the file `bytes`, a .cotan file, with the kernels of ProgramKernels() in place of those that it has: those of
// sessions and of Functions.
// Errors of CheckCudaKernels() and ArtifactFile::Parse(). Unavailable: NVRTC is not installed. Internal: a kernel does
// not compile.
absl::StatusOr<std::string> EmbedCudaKernels(std::string bytes, const CudaKernelOptions& options);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CUDA_EMBED_KERNELS_H_
