// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/copy/concat.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/copy/copy_job.h"
#include "kernels/cuda/copy/kernel_text.h"

namespace cotan::cuda {
namespace {

// Inputs of a launch: limits the parameters and the comparisons that each block makes.
constexpr size_t kMaxParts = 64;

// The copy of one input.
struct Part {
  int input;
  int64_t offset;  // in the output, bytes
  CopyJob job;
};

// Returns the launch of up to kMaxParts copies: consecutive blocks for each, and the same code for inputs of the same
// geometry.
absl::StatusOr<KernelLaunch> LaunchOf(absl::Span<const Part> parts, bool guarded) {
  KernelText kernel = {.entry = "concat", .header = "copy.cuh", .guarded = guarded, .threads = kCopyThreads};
  kernel.blocks = 0;
  std::vector<absl::string_view> types;
  std::string choice;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const auto type = static_cast<size_t>(std::find(types.begin(), types.end(), part.job.type) - types.begin());
    if (type == types.size()) types.push_back(part.job.type);
    kernel.parameters.push_back({absl::StrCat("const void* input", i), InputArgument(part.input)});
    if (i == 0) {
      absl::StrAppend(&choice, "  const void* from = input0;\n  long long offset = ", part.offset,
                      ";\n  unsigned first = 0;\n  int job = 0;\n");
    } else {
      absl::StrAppend(&choice, "  if (blockIdx.x >= ", kernel.blocks, "u) {\n    from = input", i,
                      ";\n    offset = ", part.offset, "LL;\n    first = ", kernel.blocks, "u;\n    job = ", type,
                      ";\n  }\n");
    }
    kernel.blocks += part.job.blocks;
  }
  kernel.parameters.push_back({"unsigned char* to", OutputArgument(0)});
  kernel.body = absl::StrCat(choice, "  switch (job) {\n");
  for (size_t type = 0; type < types.size(); ++type) {
    absl::StrAppend(&kernel.definitions, "using Job", type, " = ", types[type], ";\n");
    absl::StrAppend(&kernel.body, "    case ", type, ":\n      Job", type,
                    "::Run(blockIdx.x - first, from, to + offset);\n      break;\n");
  }
  absl::StrAppend(&kernel.body, "  }\n");
  return MakeLaunch(kernel);
}

}  // namespace

absl::StatusOr<KernelPlan> PlanConcat(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const auto dim = static_cast<size_t>(request.op.concat().dim());
  const TensorSpec& output = request.outputs[0];
  const size_t element_bytes = ByteSize(output.dtype);
  std::vector<Part> parts;
  int64_t begin = 0;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const StridedLayout& input = request.inputs[i].layout;
    CopyJob job = MakeCopyJob(element_bytes, input.sizes, input.strides, output.layout.strides);
    if (job.blocks > 0) {
      const int64_t offset = begin * output.layout.strides[dim] * static_cast<int64_t>(element_bytes);
      parts.push_back({static_cast<int>(i), offset, std::move(job)});
    }
    begin += input.sizes[dim];
  }
  KernelPlan plan;
  for (size_t i = 0; i < parts.size(); i += kMaxParts) {
    COTAN_ASSIGN_OR_RETURN(KernelLaunch launch,
                           LaunchOf(absl::MakeConstSpan(parts).subspan(i, kMaxParts), request.guarded_outputs));
    plan.steps.push_back(std::move(launch));
  }
  return plan;
}

}  // namespace cotan::cuda
