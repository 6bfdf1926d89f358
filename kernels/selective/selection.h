// SPDX-License-Identifier: Apache-2.0

// Which CPU kernels programs need.
#ifndef COTAN_KERNELS_SELECTIVE_SELECTION_H_
#define COTAN_KERNELS_SELECTIVE_SELECTION_H_

#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "kernels/cpu/expr/expr_needs.h"
#include "serialization/schema/op_kind.h"
#include "serialization/schema/program.pb.h"

namespace cotan::selective {

// Kernels by op and dtype of the first output, and loops of expressions.
struct Selection {
  std::set<std::pair<OpKind, DType>> kernels;
  cpu::expr::ExprNeeds loops;
};

// Adds what sessions of `artifact`, which has no calls (Calls::kInline) and passed VerifyArtifact(), need: the kernels
// of its ops, and those that planning may add to them (copies, epilogues of products) and gradients of functions
// (sums).
void AddArtifact(const serialization::Artifact& artifact, Selection& selection);

// Returns the C++ source that defines RegisterSelectedKernels() and CheckSelectedKernels() (selected_kernels.h).
// `library` is the label of the cotan_runtime() target, for messages.
// Unimplemented: an op has no CPU kernel of its dtype.
absl::StatusOr<std::string> KernelSource(const Selection& selection, absl::string_view library);

// Returns the C++ source of the inner loops for an instruction set: "generic", "avx2" or "avx512".
std::string LoopSource(const Selection& selection, absl::string_view isa);

}  // namespace cotan::selective

#endif  // COTAN_KERNELS_SELECTIVE_SELECTION_H_
