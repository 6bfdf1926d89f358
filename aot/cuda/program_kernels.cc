// SPDX-License-Identifier: Apache-2.0

#include "aot/cuda/program_kernels.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "aot/cuda/autograd_ops.h"
#include "aot/cuda/function_schedules.h"
#include "base/status_macros.h"
#include "kernels/cuda/collective/collective_plan.h"
#include "kernels/cuda/plan_op.h"
#include "planning/host_copies.h"
#include "planning/merge_launches.h"
#include "planning/schedule.h"
#include "planning/step_requests.h"

namespace cotan::aot {
namespace {

using serialization::Artifact;
using serialization::Method;

unsigned ThreadsOf(const cuda::KernelLaunch& launch) { return launch.block[0] * launch.block[1] * launch.block[2]; }

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

  // Returns the kernels by text.
  std::vector<cuda::KernelLaunch> Take() && {
    std::vector<cuda::KernelLaunch> kernels;
    for (auto& [text, launch] : launches_) kernels.push_back(std::move(launch));
    return kernels;
  }

 private:
  absl::Status AddMethod(const Method& method, const DimVector& sizes) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<ScheduleOptions> all_options, SchedulesOf(artifact_, method));
    for (ScheduleOptions options : all_options) {
      options.has_host_memory = true;
      COTAN_ASSIGN_OR_RETURN(Schedule schedule, MakeSchedule(artifact_, method, sizes, options));
      COTAN_RETURN_IF_ERROR(MergeLaunches(method, sizes, schedule));
      for (const ScheduledStep& step : schedule.steps) AddStep(method, schedule, step, sizes);
    }
    return AddAutograd(method, sizes);
  }

  // Adds the kernels that autograd runs around the backward of a method.
  absl::Status AddAutograd(const Method& method, const DimVector& sizes) {
    const auto backward = std::find_if(artifact_.methods().begin(), artifact_.methods().end(),
                                       [&](const Method& other) { return other.name() == method.backward_method(); });
    if (method.backward_method().empty() || backward == artifact_.methods().end()) return absl::OkStatus();
    COTAN_ASSIGN_OR_RETURN(const std::vector<AutogradOp> ops,
                           AutogradOps(*backward, static_cast<int>(method.num_saved()), sizes));
    for (const AutogradOp& op : ops) {
      const absl::Status status = AddOp({.op = op.op, .inputs = op.inputs, .outputs = {&op.output, 1}, .symbols = {}});
      if (!status.ok()) Refuse(absl::StrCat("autograd of method '", method.name(), "'"), status);
    }
    return absl::OkStatus();
  }

  void AddStep(const Method& method, const Schedule& schedule, const ScheduledStep& step, const DimVector& sizes) {
    if (step.members.empty() && OpOf(method, step).has_effect()) return;  // runs in the host's handler
    if (IsHostCopy(schedule, step)) return;                               // the driver's copy
    StepRequests requests(method, schedule, step, sizes);
    const absl::Status status = AddRequests(requests.requests(), !step.members.empty());
    if (status.ok()) return;
    const std::string& source = step.op < 0 ? "" : method.ops(step.op).source();
    Refuse(absl::StrCat("method '", method.name(), "', ", step.op < 0 ? "a copy" : absl::StrCat("op ", step.op),
                        source.empty() ? "" : " from ", source),
           status);
  }

  absl::Status AddRequests(absl::Span<const KernelRequest> requests, bool is_group) {
    if (is_group) return AddSources(cuda::PlanOpGroup(requests));
    return requests[0].op.has_collective() ? AddCollective(requests[0]) : AddOp(requests[0]);
  }

  // Adds the kernels of a collective, which communicators prepare.
  absl::Status AddCollective(const KernelRequest& request) {
    COTAN_ASSIGN_OR_RETURN(std::vector<cuda::KernelPlan> plans, cuda::PlansOfCollective(request));
    for (cuda::KernelPlan& plan : plans) COTAN_RETURN_IF_ERROR(AddSources(std::move(plan)));
    return absl::OkStatus();
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
      const auto* const launch = std::get_if<cuda::KernelLaunch>(&one);
      if (launch == nullptr) continue;
      const auto [entry, is_new] = launches_.try_emplace(launch->source.text, *launch);
      if (!is_new && ThreadsOf(entry->second) < ThreadsOf(*launch)) entry->second = *launch;
    }
    return absl::OkStatus();
  }

  void Refuse(absl::string_view what, const absl::Status& status) {
    std::string text = absl::StrCat(what, ": ", status.message());
    if (std::find(refusals_.begin(), refusals_.end(), text) == refusals_.end()) refusals_.push_back(std::move(text));
  }

  const Artifact& artifact_;
  absl::btree_map<std::string, cuda::KernelLaunch> launches_;  // by text
  std::vector<std::string> refusals_;
};

}  // namespace

absl::StatusOr<std::vector<cuda::KernelLaunch>> ProgramKernels(const Artifact& artifact,
                                                               absl::Span<const DimVector> sizes) {
  KernelCollector kernels(artifact);
  for (const DimVector& one : sizes) COTAN_RETURN_IF_ERROR(kernels.Add(one));
  COTAN_RETURN_IF_ERROR(kernels.Refusals());
  return std::move(kernels).Take();
}

}  // namespace cotan::aot
