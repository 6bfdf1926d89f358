// SPDX-License-Identifier: Apache-2.0

#include "aot/cuda/embed_kernels.h"

#include <algorithm>
#include <utility>

#include "aot/cuda/program_kernels.h"
#include "base/status_macros.h"
#include "kernels/cuda/launch/kernel_plan.h"
#include "kernels/cuda/nvrtc/nvrtc_table.h"
#include "kernels/cuda/source/device_library.h"
#include "serialization/calls/inline_calls.h"
#include "serialization/container/container.h"

namespace cotan::aot {
namespace {

using serialization::Artifact;

// Returns what is compiled for the compute capabilities of the options.
std::vector<cuda::nvrtc::CompileTarget> TargetsOf(const CudaKernelOptions& options) {
  std::vector<cuda::nvrtc::CompileTarget> targets;
  for (const int capability : options.compute_capabilities) {
    targets.push_back({cuda::nvrtc::ImageKind::kCubin, capability});
  }
  targets.push_back({cuda::nvrtc::ImageKind::kPtx,
                     *std::max_element(options.compute_capabilities.begin(), options.compute_capabilities.end())});
  return targets;
}

}  // namespace

absl::Status CheckCudaKernels(const Artifact& artifact, absl::Span<const DimVector> sizes) {
  return ProgramKernels(artifact, sizes).status();
}

absl::StatusOr<std::string> EmbedCudaKernels(std::string bytes, const CudaKernelOptions& options) {
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::Parse(std::move(bytes), "artifact", Calls::kKeep));
  Artifact artifact = file.artifact();
  artifact.clear_cuda_kernels();
  Artifact inlined = artifact;
  COTAN_RETURN_IF_ERROR(InlineCalls(inlined));
  COTAN_ASSIGN_OR_RETURN(const std::vector<cuda::KernelLaunch> kernels, ProgramKernels(inlined, options.sizes));
  ArtifactWriter writer;
  COTAN_RETURN_IF_ERROR(writer.AddSegmentsOf(file));
  if (!options.compute_capabilities.empty()) {
    artifact.mutable_cuda_kernels()->set_library_digest(std::string(cuda::DeviceLibraryDigest()));
    for (const cuda::KernelLaunch& launch : kernels) {
      const std::string& text = launch.source.text;
      serialization::CudaKernel& kernel = *artifact.mutable_cuda_kernels()->add_kernels();
      kernel.set_text(text);
      COTAN_ASSIGN_OR_RETURN(const std::string expanded, cuda::ExpandIncludes(text));
      for (const cuda::nvrtc::CompileTarget& target : TargetsOf(options)) {
        COTAN_ASSIGN_OR_RETURN(std::string image, cuda::nvrtc::Compile(expanded, target));
        serialization::CudaKernel::Image& stored = *kernel.add_images();
        stored.set_is_ptx(target.kind == cuda::nvrtc::ImageKind::kPtx);
        stored.set_compute_capability(static_cast<uint32_t>(target.compute_capability));
        stored.set_segment(writer.AddSegment(std::move(image)));
      }
    }
  }
  return std::move(writer).Serialize(std::move(artifact));
}

}  // namespace cotan::aot
