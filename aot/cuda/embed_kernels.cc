// SPDX-License-Identifier: Apache-2.0

#include "aot/cuda/embed_kernels.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "kernels/cuda/expr/expr_plan.h"
#include "kernels/cuda/launch/kernel_plan.h"
#include "kernels/cuda/nvrtc/nvrtc_table.h"
#include "kernels/cuda/plan_op.h"
#include "kernels/cuda/source/device_library.h"
#include "planning/merge_launches.h"
#include "planning/schedule.h"
#include "planning/step_requests.h"
#include "serialization/container/container.h"
#include "serialization/schema/op_kind.h"

namespace cotan::aot {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;

// Plans the kernels of an artifact.
class KernelCollector {
 public:
  explicit KernelCollector(const Artifact& artifact) : artifact_(artifact) {}

  absl::Status Add(const DimVector& sizes) {
    for (const Method& method : artifact_.methods()) COTAN_RETURN_IF_ERROR(AddMethod(method, sizes));
    return absl::OkStatus();
  }

  // Returns Unimplemented if ops were refused.
  absl::Status Refusals() const {
    if (refusals_.empty()) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat("the CUDA backend lacks kernels for ", refusals_.size(),
                                                 " ops of the program:\n  ", absl::StrJoin(refusals_, "\n  ")));
  }

  // Returns the texts of the kernels.
  const absl::btree_set<std::string>& sources() const { return sources_; }

 private:
  absl::Status AddMethod(const Method& method, const DimVector& sizes) {
    COTAN_ASSIGN_OR_RETURN(Schedule schedule, MakeSchedule(artifact_, method, sizes));
    COTAN_RETURN_IF_ERROR(MergeLaunches(method, sizes, schedule));
    for (const ScheduledStep& step : schedule.steps) AddStep(method, schedule, step, sizes);
    return absl::OkStatus();
  }

  void AddStep(const Method& method, const Schedule& schedule, const ScheduledStep& step, const DimVector& sizes) {
    if (step.members.empty() && OpOf(method, step).has_effect()) return;  // runs in the host's handler
    StepRequests requests(method, schedule, step, sizes);
    const absl::Status status =
        step.members.empty() ? AddOp(requests.requests()[0]) : AddSources(cuda::PlanExprGroup(requests.requests()));
    if (!status.ok()) Refuse(method, step, status);
  }

  // Adds the kernels of an op, those for machines that lack a library included.
  absl::Status AddOp(const KernelRequest& request) {
    COTAN_ASSIGN_OR_RETURN(const cuda::CudaOp* op, cuda::FindCudaOp(request));
    COTAN_RETURN_IF_ERROR(AddSources(op->plan(request)));
    return op->own_kernels == nullptr ? absl::OkStatus() : AddSources(op->own_kernels(request));
  }

  absl::Status AddSources(const absl::StatusOr<cuda::KernelPlan>& plan) {
    COTAN_RETURN_IF_ERROR(plan.status());
    for (const cuda::PlanStep& one : plan->steps) {
      if (const auto* launch = std::get_if<cuda::KernelLaunch>(&one)) sources_.insert(launch->source.text);
    }
    return absl::OkStatus();
  }

  void Refuse(const Method& method, const ScheduledStep& step, const absl::Status& status) {
    const std::string& source = step.op < 0 ? "" : method.ops(step.op).source();
    std::string text =
        absl::StrCat("method '", method.name(), "', ", step.op < 0 ? "a copy" : absl::StrCat("op ", step.op),
                     source.empty() ? "" : " from ", source, ": ", status.message());
    if (std::find(refusals_.begin(), refusals_.end(), text) == refusals_.end()) refusals_.push_back(std::move(text));
  }

  const Artifact& artifact_;
  absl::btree_set<std::string> sources_;
  std::vector<std::string> refusals_;
};

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
  KernelCollector kernels(artifact);
  for (const DimVector& one : sizes) COTAN_RETURN_IF_ERROR(kernels.Add(one));
  return kernels.Refusals();
}

absl::StatusOr<std::string> EmbedCudaKernels(std::string bytes, const CudaKernelOptions& options) {
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::Parse(std::move(bytes)));
  Artifact artifact = file.artifact();
  artifact.clear_cuda_kernels();
  KernelCollector kernels(artifact);
  for (const DimVector& sizes : options.sizes) COTAN_RETURN_IF_ERROR(kernels.Add(sizes));
  COTAN_RETURN_IF_ERROR(kernels.Refusals());
  ArtifactWriter writer;
  COTAN_RETURN_IF_ERROR(writer.AddSegmentsOf(file));
  if (!options.compute_capabilities.empty()) {
    artifact.mutable_cuda_kernels()->set_library_digest(std::string(cuda::DeviceLibraryDigest()));
    for (const std::string& text : kernels.sources()) {
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
