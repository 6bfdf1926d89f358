// SPDX-License-Identifier: Apache-2.0

// Kinds of ops and their names.
#ifndef COTAN_SERIALIZATION_SCHEMA_OP_KIND_H_
#define COTAN_SERIALIZATION_SCHEMA_OP_KIND_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

using OpKind = serialization::Op::KindCase;

// Returns the name of an op for messages: "matmul", "max_pool_backward"; "unknown" for an op of a newer
// version.
absl::string_view OpKindName(OpKind kind);

// Returns every op kind that has kernels, in the order of the schema. ViewOp, Effect and Call have none: the planner
// resolves the first, the session runs the second, readers of files replace the third.
absl::Span<const OpKind> AllOpKinds();

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_SCHEMA_OP_KIND_H_
