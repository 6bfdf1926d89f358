// SPDX-License-Identifier: Apache-2.0

// Converts ops of the runtime to nodes of the dialects prim and cotan: the inverse of emit_op.h.
#ifndef COTAN_AOT_EMIT_IMPORT_OP_H_
#define COTAN_AOT_EMIT_IMPORT_OP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/ir/builder.h"
#include "aot/ir/graph.h"
#include "serialization/metadata/view_step.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// A node without its results.
struct ImportedOp {
  std::string name;
  std::vector<Argument> arguments;
  std::shared_ptr<const serialization::Expr> expr;
};

// Returns the node of an op other than a view. Unimplemented: an effect, which has a token in graphs, or an op of a
// newer version. InvalidArgument: it has too few operands.
absl::StatusOr<ImportedOp> ImportKernelOp(const serialization::Op& op, absl::Span<const ValueId> operands);

// Appends the view of `source` that one step computes. Unimplemented: no prim op computes it.
absl::StatusOr<Tensor> AddView(Builder& builder, const ViewStep& step, const Tensor& source);

}  // namespace cotan::aot

#endif  // COTAN_AOT_EMIT_IMPORT_OP_H_
