// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/copy/part_copies.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/copy/kernel_text.h"

namespace cotan::cuda {
namespace {

// Copies of a launch: limits the parameters and the comparisons that each block makes.
constexpr size_t kMaxCopies = 64;

// Appends the statements that choose copy `i` in the blocks from `first_block` on.
void AppendChoice(size_t i, const PartCopy& copy, size_t type, int64_t first_block, absl::string_view tensor_type,
                  std::string& choice) {
  if (i == 0) {
    absl::StrAppend(&choice, "  ", tensor_type, " tensor = tensor0;\n  long long offset = ", copy.offset,
                    ";\n  unsigned first = 0;\n  int job = 0;\n");
    return;
  }
  absl::StrAppend(&choice, "  if (blockIdx.x >= ", first_block, "u) {\n    tensor = tensor", i,
                  ";\n    offset = ", copy.offset, "LL;\n    first = ", first_block, "u;\n    job = ", type,
                  ";\n  }\n");
}

// Returns the launch of up to kMaxCopies copies: consecutive blocks for each, and the same code for tensors of the same
// geometry.
absl::StatusOr<KernelLaunch> LaunchOf(absl::string_view entry, absl::Span<const PartCopy> copies,
                                      PartDirection direction, const KernelArgument& buffer, bool guarded) {
  const bool to_buffer = direction == PartDirection::kToBuffer;
  const absl::string_view tensor_type = to_buffer ? "const unsigned char*" : "unsigned char*";
  KernelText kernel = {.entry = std::string(entry), .header = "copy.cuh", .guarded = guarded, .threads = kCopyThreads};
  kernel.blocks = 0;
  std::vector<absl::string_view> types;
  std::string choice;
  for (size_t i = 0; i < copies.size(); ++i) {
    const PartCopy& copy = copies[i];
    const auto type = static_cast<size_t>(std::find(types.begin(), types.end(), copy.job.type) - types.begin());
    if (type == types.size()) types.push_back(copy.job.type);
    kernel.parameters.push_back({absl::StrCat(tensor_type, " tensor", i), copy.tensor});
    AppendChoice(i, copy, type, kernel.blocks, tensor_type, choice);
    kernel.blocks += copy.job.blocks;
  }
  kernel.parameters.push_back({to_buffer ? "unsigned char* buffer" : "const unsigned char* buffer", buffer});
  kernel.body = absl::StrCat(choice, "  switch (job) {\n");
  for (size_t type = 0; type < types.size(); ++type) {
    absl::StrAppend(&kernel.definitions, "using Job", type, " = ", types[type], ";\n");
    absl::StrAppend(&kernel.body, "    case ", type, ":\n      Job", type, "::Run(blockIdx.x - first, ",
                    to_buffer ? "tensor, buffer + offset" : "buffer + offset, tensor", ");\n      break;\n");
  }
  absl::StrAppend(&kernel.body, "  }\n");
  return MakeLaunch(kernel);
}

}  // namespace

absl::Status AppendPartCopies(absl::string_view entry, absl::Span<const PartCopy> copies, PartDirection direction,
                              const KernelArgument& buffer, bool guarded, KernelPlan& plan) {
  std::vector<PartCopy> nonempty;
  for (const PartCopy& copy : copies) {
    if (copy.job.blocks > 0) nonempty.push_back(copy);
  }
  for (size_t i = 0; i < nonempty.size(); i += kMaxCopies) {
    COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, LaunchOf(entry, absl::MakeConstSpan(nonempty).subspan(i, kMaxCopies),
                                                         direction, buffer, guarded));
    plan.steps.push_back(std::move(launch));
  }
  return absl::OkStatus();
}

}  // namespace cotan::cuda
