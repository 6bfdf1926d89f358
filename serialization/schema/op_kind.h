// The ops of a program, by kind and name.
#ifndef COTAN_SERIALIZATION_SCHEMA_OP_KIND_H_
#define COTAN_SERIALIZATION_SCHEMA_OP_KIND_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

using OpKind = serialization::Op::KindCase;

// Name of an op for people: "matmul", "max_pool_backward"; "unknown" for one
// that this build does not know.
absl::string_view OpKindName(OpKind kind);

// Every op kind that has kernels (ViewOp has none: the planner resolves it), in
// the order of the schema.
absl::Span<const OpKind> AllOpKinds();

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_SCHEMA_OP_KIND_H_
