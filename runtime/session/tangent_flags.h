// SPDX-License-Identifier: Apache-2.0

// Flags that give a backward method which of its tangents are defined.
#ifndef COTAN_RUNTIME_SESSION_TANGENT_FLAGS_H_
#define COTAN_RUNTIME_SESSION_TANGENT_FLAGS_H_

#include "absl/status/statusor.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/tensor/tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Returns true if the inputs of `backward` are `num_saved` saved values, `num_tangents` tangents and then one
// flag, bool[], for each tangent (Method.inputs). A single tangent has no flag: it is always defined.
bool TakesTangentFlags(const serialization::Method& backward, int num_saved, int num_tangents);

// Returns a flag, bool[], on the device of `ops`. Allocates nothing on the host.
// ResourceExhausted: the device has not enough memory.
// Internal: the device failed.
absl::StatusOr<Tensor> TangentFlag(TensorOps& ops, bool is_defined);

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_TANGENT_FLAGS_H_
